import type { ClientPlan, Schedule } from '../../scenarios/index.js';

/** What of a cluster, or of what clients are told, can be as it usually is; and what is left then. */
interface SetupPiece {
  readonly name: string;
  readonly without: () => Schedule;
}

/**
 * Fsyncs and dumps at times of their own, scripts that go by hash, and clocks of a client's own: a reader has to know them. What a
 * crash leaves is not among them: with other disks it would be another deployment, and not the one that was asked about.
 */
export function setupPiecesOf(schedule: Schedule): SetupPiece[] {
  const { cluster, clients } = schedule;
  const pieces: SetupPiece[] = [];
  if (cluster.fsync !== undefined) {
    const { fsync: _fsync, ...rest } = cluster;
    pieces.push({ name: 'the times of the fsyncs', without: () => ({ ...schedule, cluster: rest }) });
  }
  if (cluster.dumps !== undefined) {
    const { dumps: _dumps, ...rest } = cluster;
    pieces.push({ name: 'the times of the dumps', without: () => ({ ...schedule, cluster: rest }) });
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

function withoutTiming(schedule: Schedule, client: ClientPlan): Schedule {
  const { timing: _timing, ...rest } = client;
  return { ...schedule, clients: schedule.clients.map((it) => (it === client ? rest : it)) };
}
