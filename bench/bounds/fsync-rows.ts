import { ALIGNED, WORST } from '../../search/safety-map/adversary.js';
import {
  allowanceUs,
  lostExtensionUs,
  powerWindowUs,
  processWindowUs,
  shortfallUs,
} from '../../search/safety-map/computed.js';
import { ROUNDED_DRIFT } from '../../search/safety-map/rates.js';
import { FSYNC_SETTING, latestHarmlessLoss, longestUnsafe } from './fsync.js';
import { compare, type Row } from './row.js';

/** What an append-only file with an fsync every second loses. */
export function fsyncRows(): Row[] {
  return [...powerRows(), ...processRows(), ...extensionLossRows()];
}

function describe(phaseUs: number, takesUs: number): string {
  return `fsync every 1 s, takes ${takesUs / 1000} ms, SET ${phaseUs / 1000} ms after its start`;
}

/** The SET a microsecond after the start of an fsync is the worst case. */
const PHASES_US = [1, 500, 250_000, 999_000];
const TAKES_US = [0, 20_000, 1_000_000];

function powerRows(): Row[] {
  return TAKES_US.flatMap((takesUs) =>
    PHASES_US.map((phaseUs) =>
      compare({
        quantity: 'last harmful power loss after a SET',
        parameters: describe(phaseUs, takesUs),
        unit: 'µs',
        measured: longestUnsafe({ phaseUs, takesUs, power: true }),
        computed: powerWindowUs(FSYNC_SETTING.everyUs, phaseUs, takesUs),
      }),
    ),
  );
}

function processRows(): Row[] {
  return [1, 500].map((phaseUs) =>
    compare({
      quantity: 'last harmful death of the process after a SET',
      parameters: describe(phaseUs, 20_000),
      unit: 'µs',
      measured: longestUnsafe({ phaseUs, takesUs: 20_000, power: false }),
      computed: processWindowUs(phaseUs, 20_000),
    }),
  );
}

function extensionLossRows(): Row[] {
  const { ttlMs, delayUs } = FSYNC_SETTING;
  const ttlUs = 1000 * ttlMs;
  return [ALIGNED, WORST].map((grain) =>
    compare({
      quantity: 'latest extension whose loss is harmless',
      parameters: `TTL ${ttlMs} ms, d = 1 ms, ${grain === WORST ? 'worst phase' : 'phase 0'}`,
      unit: 'µs',
      measured: latestHarmlessLoss(grain),
      computed: lostExtensionUs({
        claimUs: ttlUs - allowanceUs(ttlUs, ROUNDED_DRIFT),
        lifeUs: ttlUs - shortfallUs(grain),
        slackUs: 2 * delayUs,
      }),
    }),
  );
}
