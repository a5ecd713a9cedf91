import type { Defect } from './defect.js';
import { seconds } from './words.js';

/* Work that may take longer than its TTL, by its time limits or because it has none. */

/** Of a function, after its name: its time limits let it call something so long after it was granted its lock, ms. */
export function limitsExceedTtl(
  name: string,
  ttlMs: number,
  late: { readonly name: string; readonly afterMs: number },
): Defect {
  return {
    id: 'work-outlasts-ttl',
    sentence: `the time limits of ${name} add up to more than its TTL: where each call takes as long as it may, ${late.name} is under way ${seconds(late.afterMs)} after it got the lock, and its key lives for ${seconds(ttlMs)}`,
    fix: 'one time limit for all of the work, which is shorter than the TTL, or an extension while the work goes on',
    brings: [],
    property: 'mutual-exclusion',
    isShown: true,
  };
}

/** Of a function, after its name: a program that it starts may take longer than its TTL. */
export function programExceedsTtl(name: string, program: string, ttlMs: number): Defect {
  return {
    id: 'work-outlasts-ttl',
    sentence: `${name} starts ${program} under the lock and sets no time limit for it (timeout, signal, kill), and its key lives for ${seconds(ttlMs)} and is not extended: a program that takes longer goes on when another process has the lock, and both work`,
    fix: 'extend the key while the program runs, or end the program before the TTL is over (timeout, or an AbortSignal)',
    brings: [],
    property: 'mutual-exclusion',
    isShown: true,
  };
}

/** Of a function, after its name: one call may take longer than its TTL, and the work goes on after it. */
export function limitExceedsTtl(
  name: string,
  ttlMs: number,
  call: { readonly name: string; readonly limitMs: number },
): Defect {
  return {
    ...limitsExceedTtl(name, ttlMs, { name: call.name, afterMs: call.limitMs }),
    sentence: `the time limit of ${call.name} is longer than the TTL: it may take ${seconds(call.limitMs)}, the key lives for ${seconds(ttlMs)}, and ${name} goes on with its work after that, without a look whether it still has the lock`,
    fix: 'a time limit for all of the work that is shorter than the TTL, or an extension while the work goes on',
  };
}

/** Of a function, after its name: it tries a call again for longer than its TTL. */
export function retriesExceedTtl(
  name: string,
  ttlMs: number,
  call: { readonly name: string; readonly failures: number; readonly afterMs: number },
): Defect {
  const times = call.failures === 1 ? 'once' : `${call.failures} times`;
  return {
    ...limitsExceedTtl(name, ttlMs, call),
    sentence: `${name} tries ${call.name.replace(/^\./, '')} again for longer than its TTL: where that has failed ${times}, it is called again ${seconds(call.afterMs)} after the lock was granted, the key lives for ${seconds(ttlMs)} and is not extended, and the work goes on beside that of another process`,
    fix: 'fewer tries, or shorter waits between them, than the TTL lets; or an extension while the work goes on',
  };
}

/** Of a route, after its name: its platform lets it run for longer than its TTL. */
export function platformExceedsTtl(name: string, limitMs: number, ttlMs: number): Defect {
  return {
    ...limitsExceedTtl(name, ttlMs, { name, afterMs: limitMs }),
    sentence: `its platform lets ${name} run for ${seconds(limitMs)} (maxDuration), it goes through a list under the lock, and its key lives for ${seconds(ttlMs)} and is not extended: the next call gets the lock while this one works`,
    fix: 'a TTL that is longer than maxDuration, or a time limit for all of the work that is shorter than the TTL',
  };
}

/** Of a function, after its name: it calls something for each of a list, however long that is. */
export function listExceedsTtl(name: string, call: string, ttlMs: number): Defect {
  return {
    ...limitsExceedTtl(name, ttlMs, { name: call, afterMs: ttlMs }),
    sentence: `${name} calls ${call.replace(/^\./, '')} for each of a list, one after the other, and its key lives for ${seconds(ttlMs)} and is not extended: nothing limits how many there are, and with more than fit into that time it goes on when its lock has expired, beside another process that has it by then`,
    fix: 'extend the key while the work goes on, and stop where that fails; or take no more at once than fit into the TTL, or look at the time before each',
  };
}

/** Of a function, after its name: a comment says that it takes longer than its TTL. */
export function saidToExceedTtl(name: string, ttlMs: number, said: string): Defect {
  return {
    ...limitsExceedTtl(name, ttlMs, { name, afterMs: ttlMs }),
    sentence: `a comment says “${said}”, the key of ${name} lives for ${seconds(ttlMs)} and is not extended, and nothing ends the work before that: it goes on when another process has the lock, and both work`,
    fix: 'a TTL that is longer than the work takes, or an extension while it goes on; or a time limit for all of the work that is shorter than the TTL',
  };
}

/** Of a function, after its name: it goes on until nothing is left to do, however long that takes. */
export function goesOnUntilNothingIsLeft(
  name: string,
  ttlMs: number,
  call: { readonly name: string; readonly afterMs: number },
): Defect {
  const called = call.name.replace(/^\./, '');
  return {
    ...limitsExceedTtl(name, ttlMs, call),
    sentence: `${name} goes on until nothing is left to do, and its key lives for ${seconds(ttlMs)} and is not extended: where there is more to do than fits into that time, it still calls ${called} ${seconds(call.afterMs)} after the lock was granted, beside another process that has it by then`,
    fix: 'extend the key while the work goes on, and stop where that fails; or look at the time in each turn of the loop, and end before the TTL does',
  };
}
