import { nameOfCall } from './called.js';
import type { Defect } from './defect.js';
import { isHarmful } from './late-safe.js';
import { heldNow, use } from './rehearsal.js';
import { plays, type Subject } from './subject.js';

/* Payments that are made again when their guard is removed. */

/** A client of a payment service, by its package. */
const SERVICE = /['"](?:stripe|@?paypal|@?adyen|braintree|@mollie|razorpay|square|dwolla)\b/;
/** What pays by such a client, by its name. */
const CREATES =
  /(?:refund|charge|paymentIntent|payment|transfer|payout)\w*\.(?:create|confirm|capture|send|submit)\w*$/;
/** What says that it pays, by its name. */
const PAYS = /(?:^|\.)(?:charge|refund|payOut|payout|disburse|capture)(?:[A-Z]\w*)?$/;
/** A record of it. */
const OF_DATABASE = /prisma|knex|repo|(?:^|\.)(?:db|tx|trx|database)\./i;

/** Its idempotency key is another one at each attempt. */
const KEY_OF_ATTEMPT = /idempotency-?key['"]?\s*:[^,\n]*\battempt/i;

const SENTENCE = 'it removes its guard when anything fails, also what comes after the payment';

/** Makes a payment twice. */
const PAYS_AGAIN: Defect = {
  id: 'pays-again',
  sentence: `${SENTENCE}, which has no idempotency key: the retry finds no guard and pays a second time`,
  fix: 'give the payment an idempotency key that is the same for all tries, or keep the guard once the payment may have been made',
  brings: [],
  property: 'mutual-exclusion',
  isShown: true,
};

/** The same with a key that helps for nothing. */
const PAYS_UNDER_OTHER_KEY: Defect = {
  ...PAYS_AGAIN,
  sentence: `${SENTENCE}, and the idempotency key of that has the number of the attempt in it: the retry pays a second time under another key`,
};

/** Whether a guard is removed where what comes after a payment fails, and the payment is made again when it is asked for again. */
export async function paysAgain(subject: Subject): Promise<Defect | null> {
  const { bench, how, ttlMs } = subject;
  const { texts } = bench.program;
  const hasService = texts.some((it) => SERVICE.test(it));
  const variesKey = texts.some((it) => KEY_OF_ATTEMPT.test(it));
  let [isPaid, hasFailed, name] = [false, false, ''];
  const heard = (given: readonly unknown[], call: string): void => {
    name = nameOfCall(call);
    const isPayment = PAYS.test(name) || (hasService && CREATES.test(name));
    const pays = isPayment && !OF_DATABASE.test(name) && (variesKey || isHarmful(call, given));
    isPaid ||= pays && heldNow(bench) !== null;
  };
  let atPayment = '';
  const takes = (): Promise<void> => {
    if (isPaid && atPayment === '') atPayment = name;
    if (!isPaid || hasFailed || name === atPayment) return Promise.resolve();
    hasFailed = true;
    return Promise.reject(new Error('it failed'));
  };
  if (how.releases) return null;
  const [attempt] = await plays(subject, [[use(10, ttlMs, 1)]], [], { naturally: true, heard, takes });
  const { trial } = attempt ?? {};
  const isRemoved = trial?.sent.some((it) => it.operation === 'release' && it.key === trial.key) ?? false;
  if (!hasFailed || !isRemoved) return null;
  return variesKey ? PAYS_UNDER_OTHER_KEY : PAYS_AGAIN;
}
