import { ALIGNED, EXACT, type ExpiryModel, WORST } from '../../search/safety-map/adversary.js';
import {
  allowanceUs,
  countedAbsenceUs,
  faultyForExclusion,
  freeAfterSilenceUs,
  greatestElapsedUs,
  greatestStepUs,
  latestStepUs,
  leastAbsenceUs,
  longestBeliefUs,
  longestWaitUs,
  type Margin,
  overtakenBelowUs,
  shortfallUs,
  worstShortfallUs,
} from '../../search/safety-map/computed.js';
import { ROUNDED_DRIFT } from '../../search/safety-map/rates.js';
import { greatestElapsedFromReply, greatestOvertaken, longestHold, OVERTAKEN } from './extensions.js';
import { leastAbsence, leastRestartDelay, type RestartCase } from './restart.js';
import { compare, type Row } from './row.js';
import {
  greatestClientStep,
  greatestClientStop,
  greatestNodeStep,
  greatestTimerLag,
  latestUsefulStep,
  leastHarmfulClientStepMs,
  leastHarmfulNodeStepMs,
} from './steps.js';
import { freeAfterSilence, longestWait } from './waiting.js';

const TTLS_MS = [1_000, 10_000];
const DELAYS_US = [0, 1_000];
const PPM = 1_000_000;
const NODES = 5;
const QUORUM = 3;

interface Setting {
  readonly ttlMs: number;
  readonly delayUs: number;
}

/** Every TTL with every delay. */
const SETTINGS: readonly Setting[] = TTLS_MS.flatMap((ttlMs) => DELAYS_US.map((delayUs) => ({ ttlMs, delayUs })));

function describe({ ttlMs, delayUs }: Setting): string {
  return `TTL ${ttlMs} ms, d = ${delayUs / 1000} ms`;
}

/** What the reference policy believes, TTL − D. */
function claimOf(ttlMs: number): number {
  const ttlUs = 1000 * ttlMs;
  return ttlUs - allowanceUs(ttlUs, ROUNDED_DRIFT);
}

function marginOf({ ttlMs, delayUs }: Setting, shortfall: number): Margin {
  return { claimUs: claimOf(ttlMs), lifeUs: 1000 * ttlMs - shortfall, slackUs: 2 * delayUs };
}

const GRAINS: readonly { readonly title: string; readonly grain: ExpiryModel }[] = [
  { title: 'phase 0', grain: ALIGNED },
  { title: 'worst phase', grain: WORST },
];

/** Steps of clocks. */
export function stepRows(): Row[] {
  return SETTINGS.flatMap((setting) => [...nodeStepRows(setting), ...clientStepRows(setting)]);
}

function nodeStepRows(setting: Setting): Row[] {
  const rows: Row[] = [];
  for (const votes of [3, 4, 5]) {
    const stepping = faultyForExclusion(NODES, QUORUM, votes);
    const who = `${stepping} of ${votes} voters`;
    for (const { title, grain } of GRAINS) {
      rows.push(
        compare({
          quantity: 'greatest harmless step of nodes',
          parameters: `${describe(setting)}, ${who}, ${title}`,
          unit: 'µs',
          measured: greatestNodeStep({ ...setting, grain, votes, stepping }),
          computed: greatestStepUs(marginOf(setting, shortfallUs(grain)), 0),
          ...(grain === WORST ? { limit: greatestStepUs(marginOf(setting, worstShortfallUs(grain)), 0) } : {}),
        }),
      );
    }
    rows.push(
      wholeStepRow(
        'least harmful step of nodes',
        setting,
        who,
        leastHarmfulNodeStepMs({ ...setting, votes, stepping }),
      ),
    );
  }
  for (const ppm of [2_500, 5_000]) {
    rows.push(
      compare({
        quantity: 'greatest harmless step of nodes',
        parameters: `${describe(setting)}, 1 of 3 voters, g = 0, rates ${ppm} ppm`,
        unit: 'µs',
        measured: greatestNodeStep({ ...setting, grain: EXACT, ppm }),
        computed: greatestStepUs(marginOf(setting, 0), ppm / PPM),
      }),
    );
  }
  rows.push(
    compare({
      quantity: 'latest useful step of a node',
      parameters: describe(setting),
      unit: 'µs',
      measured: latestUsefulStep(setting),
      computed: latestStepUs(claimOf(setting.ttlMs), setting.delayUs),
    }),
  );
  return rows;
}

/** The least whole number of ms above the boundary at phase 0: ⌊D + d_req + d_resp + 1⌋ + 1. */
function wholeStepRow(quantity: string, setting: Setting, who: string, measured: number): Row {
  const boundaryMs = greatestStepUs(marginOf(setting, shortfallUs(ALIGNED)), 0) / 1000;
  const parameters = `${describe(setting)}, ${who}, phase 0`;
  return compare({ quantity, parameters, unit: 'ms', measured, computed: Math.floor(boundaryMs) + 1 });
}

function clientStepRows(setting: Setting): Row[] {
  const whole = leastHarmfulClientStepMs(setting);
  const rows = [wholeStepRow('least harmful step of the client', setting, 'all nodes healthy', whole)];
  for (const { title, grain } of GRAINS) {
    const computed = greatestStepUs(marginOf(setting, shortfallUs(grain)), 0);
    const limit = grain === WORST ? { limit: greatestStepUs(marginOf(setting, worstShortfallUs(grain)), 0) } : {};
    const wanted = { ...setting, grain };
    const parameters = `${describe(setting)}, all nodes healthy, ${title}`;
    const measured: readonly (readonly [string, number])[] = [
      ['greatest harmless step back of the client', greatestClientStep(wanted)],
      ['greatest harmless step back between T1 and T2', greatestClientStep({ ...wanted, atUs: setting.delayUs })],
      ['longest harmless suspend, monotonic client clock', greatestClientStop(wanted, 'monotonic')],
      [
        'longest harmless suspend between T1 and T2, monotonic client clock',
        greatestClientStop({ ...wanted, atUs: setting.delayUs }, 'monotonic'),
      ],
      ['longest harmless pause of a virtual machine, any client clock', greatestClientStop(wanted, 'all')],
      ['latest harmless start of a relative validity', greatestTimerLag(wanted)],
    ];
    rows.push(
      ...measured.map(([quantity, us]) =>
        compare({ quantity, parameters, unit: 'µs', measured: us, computed, ...limit }),
      ),
    );
  }
  return rows;
}

/** Restart without persistence, the absence measured by different clocks. */
export function restartRows(): Row[] {
  const rows: Row[] = [];
  for (const setting of SETTINGS) {
    for (const crashUs of new Set([setting.delayUs, 1_000, 2_000, 3_000])) {
      for (const ppm of [0, 5_000, 10_000]) {
        const wanted = { ...setting, crashUs, ppm };
        if (ppm > 0) rows.push(absenceRow(wanted));
        rows.push(restartRow(wanted));
      }
    }
    rows.push(restartRow({ ...setting, crashUs: 3_000, votes: 4, crashing: 2 }));
    rows.push(restartRow({ ...setting, crashUs: 3_000, votes: 5, crashing: 3 }));
    for (const stepUs of [1_000, 3_600_000_000]) rows.push(restartRow({ ...setting, crashUs: 3_000, stepUs }));
    rows.push(restartRow({ ...setting, crashUs: 3_000, stepUs: 1_000, ppm: 5_000 }));
  }
  return rows;
}

function restartRow(wanted: RestartCase): Row {
  const { crashing = 1, votes = 3, ppm = 0, stepUs = 0 } = wanted;
  const who = crashing === 1 ? '' : `, ${crashing} of ${votes} voters`;
  const stepping = stepUs === 0 ? '' : `, jumping by ${stepUs / 1000} ms`;
  return compare({
    quantity: 'least restart delay, node clock',
    parameters: `${describeCrash(wanted)}${who}${stepping}`,
    unit: 'µs',
    measured: leastRestartDelay(wanted),
    computed: countedAbsenceUs(absenceOf(wanted), ppm / PPM, stepUs),
  });
}

function absenceRow(wanted: RestartCase): Row {
  return compare({
    quantity: 'least restart delay, true time',
    parameters: describeCrash(wanted),
    unit: 'µs',
    measured: leastAbsence(wanted),
    computed: absenceOf(wanted),
  });
}

function describeCrash(wanted: RestartCase): string {
  return `${describe(wanted)}, crash at ${wanted.crashUs / 1000} ms, rates ${wanted.ppm ?? 0} ppm`;
}

function absenceOf({ ttlMs, crashUs, delayUs, ppm = 0 }: RestartCase): number {
  return leastAbsenceUs(claimOf(ttlMs), crashUs, delayUs, ppm / PPM);
}

/** Extensions, as far as they are about time. */
export function extensionRows(): Row[] {
  const fromReply = SETTINGS.flatMap((setting) =>
    GRAINS.map(({ title, grain }) =>
      compare({
        quantity: "slowest harmless extension, deadline from T2'",
        parameters: `${describe(setting)}, ${title}`,
        unit: 'µs',
        measured: greatestElapsedFromReply({ ...setting, grain }),
        computed: greatestElapsedUs(marginOf(setting, shortfallUs(grain))),
        ...(grain === WORST ? { limit: greatestElapsedUs(marginOf(setting, worstShortfallUs(grain))) } : {}),
      }),
    ),
  );
  const ttlMs = 10_000;
  const deadlineUs = OVERTAKEN.longCallUs + claimOf(ttlMs);
  const below = overtakenBelowUs(deadlineUs, OVERTAKEN.shortLandsUs, shortfallUs(ALIGNED), 1_000);
  const overtaken = compare({
    quantity: 'longest overtaken extension that harms, if it can shorten',
    parameters: `${describe({ ttlMs, delayUs: 1_000 })}, lands at ${OVERTAKEN.shortLandsUs / 1000} ms, phase 0`,
    unit: 'ms',
    measured: greatestOvertaken(ttlMs),
    computed: Math.ceil(below / 1000) - 1,
  });
  const holds = [0, 1, 2, 3, 10].map((extensions) =>
    compare({
      quantity: 'longest belief with extensions',
      parameters: `${describe({ ttlMs: 1_000, delayUs: 1_000 })}, ${extensions} extensions`,
      unit: 'µs',
      measured: longestHold({ ttlMs: 1_000, delayUs: 1_000 }, extensions).endUs,
      computed: longestBeliefUs(claimOf(1_000), 2_000, extensions, 1),
      limit: longestBeliefUs(claimOf(1_000), 2_000, extensions, 0),
    }),
  );
  return [...fromReply, overtaken, ...holds];
}

/** How long a lock stays taken after its holder fell silent, and how long the next client waits. */
export function waitingRows(): Row[] {
  return [...SETTINGS.flatMap(silenceRows), ...[false, true].map(waitRow)];
}

interface Silence {
  readonly grain?: ExpiryModel;
  readonly nodePpm?: number;
  readonly setBackUs?: number;
  readonly ghostUs?: number;
}

const SILENCES: readonly { readonly title: string; readonly change: Silence }[] = [
  { title: 'phase 0', change: {} },
  { title: 'worst phase for the key', change: { grain: WORST } },
  { title: 'phase 0, slow nodes 10000 ppm', change: { nodePpm: -10_000 } },
  { title: 'phase 0, set back 5 s', change: { setBackUs: 5_000_000 } },
  { title: 'phase 0, set back 5 s, slow nodes 10000 ppm', change: { setBackUs: 5_000_000, nodePpm: -10_000 } },
  { title: 'phase 0, SETs arrive after 3 s', change: { ghostUs: 3_000_000 } },
];

function silenceRows(setting: Setting): Row[] {
  return SILENCES.map(({ title, change }) => {
    const { grain = ALIGNED, nodePpm = 0, setBackUs = 0, ghostUs = setting.delayUs } = change;
    const lifeUs = 1000 * setting.ttlMs - shortfallUs(grain);
    return compare({
      quantity: 'free after the holder fell silent',
      parameters: `${describe(setting)}, ${title}`,
      unit: 'µs',
      measured: freeAfterSilence({ ...setting, ...change }),
      computed: freeAfterSilenceUs(ghostUs, lifeUs, setBackUs, -nodePpm / PPM),
    });
  });
}

function waitRow(twoDown: boolean): Row {
  const pause = { retryDelayUs: 200_000, retryJitterUs: 100_000 };
  const wanted = { ttlMs: 10_000, delayUs: 1_000, timeoutUs: 50_000, ...pause, twoDown };
  const refusedUs = twoDown ? wanted.timeoutUs : 2 * wanted.delayUs;
  return compare({
    quantity: 'longest wait once the lock is free',
    parameters: `${describe(wanted)}, retry 200 ± 100 ms, time-out 50 ms, ${twoDown ? 'two nodes down' : 'all nodes up'}`,
    unit: 'µs',
    measured: longestWait(wanted),
    computed: longestWaitUs(refusedUs, wanted.delayUs, pause.retryDelayUs + pause.retryJitterUs, 2 * wanted.delayUs),
  });
}
