import type { ClientPlan, Fault, Schedule } from '../../scenarios/index.js';

/** What of a cluster, or of what clients are told, can be as it usually is; and what is left then. */
export interface SetupPiece {
  readonly name: string;
  readonly without: () => Schedule;
}

/** Disks that lose their last second, scripts that go by hash, and clocks of a client's own: a reader has to know them. */
export function setupPiecesOf(schedule: Schedule): SetupPiece[] {
  const { cluster, clients } = schedule;
  const pieces: SetupPiece[] = [];
  if (cluster.persistence === 'everysec' && cluster.answers === undefined) {
    pieces.push({ name: 'the disks', without: () => withoutDisks(schedule) });
  }
  if (cluster.fsync !== undefined) {
    const { fsync: _fsync, ...rest } = cluster;
    pieces.push({ name: 'the times of the fsyncs', without: () => ({ ...schedule, cluster: rest }) });
  }
  if (cluster.scripts === 'by-hash') {
    const { scripts: _scripts, ...rest } = cluster;
    pieces.push({ name: 'scripts by hash', without: () => ({ ...schedule, cluster: rest }) });
  }
  for (const client of clients) {
    if (client.timing === undefined) continue;
    pieces.push({ name: `the own timing of ${client.id}`, without: () => withoutTiming(schedule, client) });
  }
  return pieces;
}

/** Nodes that forget whatever ends them. */
function withoutDisks(schedule: Schedule): Schedule {
  const { fsync: _fsync, ...cluster } = schedule.cluster;
  return { ...schedule, cluster: { ...cluster, persistence: 'none' }, faults: schedule.faults.map(plain) };
}

function plain(fault: Fault): Fault {
  if (fault.kind !== 'crash') return fault;
  const { power: _power, clean: _clean, ...rest } = fault;
  return rest;
}

function withoutTiming(schedule: Schedule, client: ClientPlan): Schedule {
  const { timing: _timing, ...rest } = client;
  return { ...schedule, clients: schedule.clients.map((it) => (it === client ? rest : it)) };
}
