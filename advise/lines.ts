import type { SystemNode } from './system.js';

/** Lines of a configuration file. */
export interface Lines {
  /** The file, or the place in one. */
  readonly file: string;
  readonly lines: readonly string[];
  /** What is to be done before, as a command; left out where nothing is. */
  readonly first?: string;
  /** What is to be done when they are in place, as a command; left out where nothing is. */
  readonly command?: string;
}

/** ms of µs, rounded up, as people write a duration in a sentence. */
export function inWords(us: number): string {
  const ms = Math.ceil(us / 1000);
  return ms >= 1000 ? `${ms / 1000} s` : `${ms} ms`;
}

/** What is said above a command for a shell. */
export function shellWords(command: string): string {
  const auth = command.includes('redis-cli') ? ' (if Redis asks for a password: export REDISCLI_AUTH before)' : '';
  return `then, in a shell${auth}`;
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
  // The official image drops its rights in a script of its own, in place of which this stands.
  const waited = `sleep ${seconds} && exec \`command -v docker-entrypoint.sh\` "$@"`;
  switch (supervisor) {
    case 'systemd': {
      const startS = Math.ceil(Number(seconds)) + SYSTEMD_START_S;
      return {
        ...dropIn(unit, 'hold-back'),
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
          // Compose takes $$ for $.
          `entrypoint: ["sh", "-c", ${JSON.stringify(waited.replaceAll('$', () => '$$'))}, "sh"]`,
          'command: ["redis-server", "/etc/redis/redis.conf"]',
        ],
      };
    default:
      return null;
  }
}

/** A file beside a unit, and the folder that it needs. */
function dropIn(unit: string, name: string): Pick<Lines, 'file' | 'first'> {
  const folder = `/etc/systemd/system/${unit}.service.d`;
  return { file: `${folder}/${name}.conf, on each node`, first: `mkdir -p ${folder}` };
}

/** The file that the packages of Debian and Ubuntu start Redis with; elsewhere INFO has its name (config_file). */
const REDIS_CONF = 'redis.conf (Debian: /etc/redis/redis.conf)';

/** Waits until an append-only file is whole. */
const WHOLE = "while redis-cli INFO persistence | grep -Eq 'aof_rewrite_(in_progress|scheduled):1'; do sleep 1; done";

/** Every acknowledged vote is on the disk. */
export function fsyncLines(): Lines {
  return {
    file: `${REDIS_CONF}, on each node`,
    lines: ['appendonly yes', 'appendfsync always'],
    // A restart with an append-only file that is not there yet, or not whole, would begin empty.
    command: `redis-cli CONFIG SET appendfsync always && redis-cli CONFIG SET appendonly yes && ${WHOLE}`,
  };
}

/** No key is evicted. */
export function noEvictionLines(): Lines {
  return {
    file: `${REDIS_CONF}, on each node`,
    lines: ['maxmemory-policy noeviction'],
    command: 'redis-cli CONFIG SET maxmemory-policy noeviction',
  };
}

/** No replica takes over: Sentinel never promotes one of this priority. */
export function noPromotionLines(): Lines {
  return {
    file: `${REDIS_CONF}, on each replica`,
    lines: ['replica-priority 0'],
    command: 'redis-cli CONFIG SET replica-priority 0',
  };
}

/** Of what clocks may be off, the share that is left to a slew: the rest is for their own error, which adds to it. */
const SLEWED = 0.8;

/** How fast chrony may slew where clocks may be off by so much in all, ppm. */
export function slewRatePpm(driftPpm: number): number {
  return Math.max(1, Math.floor(SLEWED * driftPpm));
}

/** How long that takes. */
export function slewCost(driftPpm: number): string {
  return `a second takes ${Math.ceil(1_000_000 / slewRatePpm(driftPpm) / 60)} min`;
}

/** Returns when chronyd has set the clock: after its first update, which steps. It asks each second, also a chronyd that is not there yet. */
const CLOCK_IS_SET = '/usr/bin/chronyc waitsync 0 0 0 1';

/**
 * Clocks are stepped only at the first update of a chronyd that starts, and else slewed, slowly; of a step while it runs, a
 * lock withstands so much. The limit is 1 since nothing that locks starts before that update: no later one may step. What is
 * off by less than the threshold is slewed within minutes.
 */
export function slewLines(driftPpm: number, withstoodUs: number): Lines {
  const step = withstoodUs === 0 ? 'a step' : `a step of more than ${inWords(withstoodUs)}`;
  return {
    file: '/etc/chrony/chrony.conf, on each machine of a node or a client, in place of its makestep line',
    first: 'apt install chrony  # Debian, Ubuntu: it replaces systemd-timesyncd, and may step as it starts',
    lines: [
      '# when chronyd starts, its first update steps a clock that is off by more than 0.1 s; later ones slew',
      '# it starts at boot, and when it is installed, restarted or upgraded (chronyc tracking: how far it is off)',
      `# before ${step} on a running machine, stop what locks there, and Redis for a TTL`,
      '# journalctl -u chrony | grep stepped: the steps of chronyd ("System clock was stepped by …"), not of others',
      'makestep 0.1 1',
      `maxslewrate ${slewRatePpm(driftPpm)}`,
      'leapsecmode slew',
      `# the unit of what locks (and of Redis, if it is not below) needs ExecStartPre=+${CLOCK_IS_SET}`,
    ],
    command: 'systemctl restart chrony',
  };
}

/** Redis starts when chrony has set the clock, and not before: its unit, or that of what runs its container. */
export function clockOrderLines({ supervisor, unit }: Pick<SystemNode, 'supervisor' | 'unit'>): Lines[] {
  const units = { systemd: unit, kubernetes: 'kubelet', docker: 'docker', managed: null, other: null };
  const ordered = units[supervisor];
  if (ordered === null) return [];
  return [
    {
      // The last of the files there by its name: hold-back.conf limits the start, and this wait has no limit.
      ...dropIn(ordered, 'wait-for-clock'),
      lines: [
        '[Service]',
        '# each start waits until chrony has set the clock; without a time source it waits on',
        `ExecStartPre=+${CLOCK_IS_SET}`,
        'TimeoutStartSec=infinity',
      ],
      command: `systemctl daemon-reload && timeout 60 ${CLOCK_IS_SET}  # fails unless chrony sets the clock`,
    },
  ];
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

/** Lines of which each command that comes first stands once. */
export function firstOnce(all: readonly Lines[]): Lines[] {
  const done = new Set<string>();
  return all.map(({ first, ...it }) => {
    if (first === undefined || done.has(first)) return it;
    done.add(first);
    return { ...it, first };
  });
}

function both(first: Lines, second: Lines): Lines {
  const command = [first.command, second.command].filter((it) => it !== undefined).join(' && ');
  const lines = [...new Set([...first.lines, ...second.lines])];
  return { file: first.file, lines, ...(command === '' ? {} : { command }) };
}
