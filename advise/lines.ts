import type { SystemNode } from './system.js';

/** Lines of a configuration file. */
export interface Lines {
  /** The file, or the place in one. */
  readonly file: string;
  readonly lines: readonly string[];
  /** What is to be done when they are in place, as a command; left out where nothing is. */
  readonly command?: string;
}

/** A delay as `sleep` takes it, in seconds, rounded up to whole ms. */
export function sleepSeconds(delayUs: number): string {
  return String(Math.ceil(delayUs / 1000) / 1000);
}

/** What systemd waits for a service to start unless it is told otherwise, s. */
const SYSTEMD_START_S = 90;

/** The unit of Redis in the packages of Debian and Ubuntu. */
export const DEBIAN_UNIT = 'redis-server';

/** What a container may take to start besides, s. */
const STARTING_S = 30;

/**
 * What keeps a node away for this long before each of its starts, by whatever supervises it: a crash, a restart by hand and
 * a boot alike. `null`: nothing of its users' does.
 */
export function holdBackLines(node: Pick<SystemNode, 'supervisor' | 'unit'>, delayUs: number): Lines | null {
  const { supervisor, unit } = node;
  const seconds = sleepSeconds(delayUs);
  const waited = `sleep ${seconds} && exec "$@"`;
  switch (supervisor) {
    case 'systemd': {
      const startS = Math.ceil(Number(seconds)) + SYSTEMD_START_S;
      return {
        file: `/etc/systemd/system/${unit}.service.d/hold-back.conf, on each node`,
        lines: [
          ...(unit === DEBIAN_UNIT
            ? [`# ${unit} is the unit of Debian and Ubuntu; for another one: --unit redis`]
            : []),
          '[Service]',
          '# the restart delay, before each start; + exempts it from the NoExecPaths of Debian',
          `ExecStartPre=+/bin/sleep ${seconds}`,
          `# the delay, and the ${SYSTEMD_START_S} s that systemd gives a service to start by default`,
          `TimeoutStartSec=${startS}`,
        ],
        command: 'systemctl daemon-reload  # then restart one node, and see that it comes back',
      };
    }
    case 'kubernetes':
      return {
        file: 'the redis container of the StatefulSet (its own command goes into args)',
        lines: [
          `command: ["sh", "-c", ${JSON.stringify(waited)}, "sh"]`,
          'args: ["redis-server", "/etc/redis/redis.conf"]',
          `startupProbe: {"tcpSocket": {"port": 6379}, "periodSeconds": 1, "failureThreshold": ${Math.ceil(Number(seconds)) + STARTING_S}}`,
        ],
      };
    case 'docker':
      return {
        file: 'the redis service in compose.yaml (its own command goes into command)',
        lines: [
          `entrypoint: ["sh", "-c", ${JSON.stringify(waited.replace('$@', '$$@'))}, "sh"]`,
          'command: ["redis-server", "/etc/redis/redis.conf"]',
        ],
      };
    default:
      return null;
  }
}

/** Every acknowledged vote is on the disk. */
export function fsyncLines(): Lines {
  return {
    file: 'redis.conf, on each node',
    lines: ['appendonly yes', 'appendfsync always'],
    // A restart with an append-only file that is not there yet would begin empty.
    command: 'redis-cli CONFIG SET appendfsync always && redis-cli CONFIG SET appendonly yes',
  };
}

/** No key is evicted. */
export function noEvictionLines(): Lines {
  return {
    file: 'redis.conf, on each node',
    lines: ['maxmemory-policy noeviction'],
    command: 'redis-cli CONFIG SET maxmemory-policy noeviction',
  };
}

/** No replica takes over: Sentinel never promotes one of this priority. */
export function noPromotionLines(): Lines {
  return {
    file: 'redis.conf, on each replica',
    lines: ['replica-priority 0'],
    command: 'redis-cli CONFIG SET replica-priority 0',
  };
}

/** Of what clocks may be off, the share that is left to a slew: the rest is for their own error, which adds to it. */
const SLEWED = 0.8;

/** The most that chrony may slew clocks by that are to be off by no more than so much. */
export function slewRate(driftPpm: number): number {
  return Math.max(1, Math.floor(SLEWED * driftPpm));
}

/** Clocks are slewed, slowly, and never stepped. */
export function slewLines(driftPpm: number): Lines {
  return {
    file: '/etc/chrony/chrony.conf, in place of its makestep line',
    lines: ['makestep 1 0', `maxslewrate ${slewRate(driftPpm)}`, 'leapsecmode slew'],
    command: 'systemctl restart chrony',
  };
}

/** A file once, with the last of its lines; those of a redis.conf add up. */
export function mergedLines(all: readonly Lines[]): Lines[] {
  const byFile = new Map<string, Lines>();
  for (const part of all) {
    const before = byFile.get(part.file);
    const isConf = part.file.startsWith('redis.conf');
    byFile.set(part.file, before !== undefined && isConf ? both(before, part) : part);
  }
  return [...byFile.values()];
}

function both(first: Lines, second: Lines): Lines {
  const command = [first.command, second.command].filter((it) => it !== undefined).join(' && ');
  const lines = [...new Set([...first.lines, ...second.lines])];
  return { file: first.file, lines, ...(command === '' ? {} : { command }) };
}
