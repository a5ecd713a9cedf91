import type { Supervisor } from './system.js';

/** Lines of a configuration file. */
export interface Lines {
  /** The file, or the place in one. */
  readonly file: string;
  readonly lines: readonly string[];
}

/** A delay as `sleep` takes it, in seconds, rounded up to whole ms. */
export function sleepSeconds(delayUs: number): string {
  return String(Math.ceil(delayUs / 1000) / 1000);
}

/** What systemd waits for a service to start unless it is told otherwise, s. */
const SYSTEMD_START_S = 90;

/** What a container may take to start besides, s. */
const STARTING_S = 30;

/**
 * What keeps a node away for this long before each of its starts, by whatever supervises it: a crash, a restart by hand and
 * a boot alike. `null`: nothing of its users' does.
 */
export function holdBackLines(supervisor: Supervisor, delayUs: number): Lines | null {
  const seconds = sleepSeconds(delayUs);
  const waited = `sleep ${seconds} && exec "$@"`;
  switch (supervisor) {
    case 'systemd': {
      const startS = Math.ceil(Number(seconds)) + SYSTEMD_START_S;
      return {
        file: '/etc/systemd/system/redis-server.service.d/hold-back.conf, on each node',
        lines: ['[Service]', `ExecStartPre=/bin/sleep ${seconds}`, `TimeoutStartSec=${startS}`],
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
  return { file: 'redis.conf, on each node', lines: ['appendonly yes', 'appendfsync always'] };
}

/** No key is evicted. */
export function noEvictionLines(): Lines {
  return { file: 'redis.conf, on each node', lines: ['maxmemory-policy noeviction'] };
}

/** No replica takes over: Sentinel never promotes one of this priority. */
export function noPromotionLines(): Lines {
  return { file: 'redis.conf, on each replica', lines: ['replica-priority 0'] };
}

/** Clocks are slewed, slowly, and never stepped. */
export function slewLines(driftPpm: number): Lines {
  return {
    file: '/etc/chrony/chrony.conf, in place of its makestep line',
    lines: ['makestep 1 0', `maxslewrate ${Math.max(1, driftPpm)}`, 'leapsecmode slew'],
  };
}
