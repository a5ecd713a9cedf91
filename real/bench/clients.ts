import { Redlock } from 'lockstep-redlock';
import { type ClientLibrary, openClient, type ProgramClient } from '../client-libraries.js';
import type { BenchCluster } from './cluster.js';
import { floorOn, lockSettings, type Retries, type Subject, subjectOf } from './subjects.js';

/** The lock on a client of another package, and its floor: the commands on the same client, with a time-out for each round. */
export function clientSubjects(name: ClientLibrary): ((cluster: BenchCluster, retries: Retries) => Promise<Subject>)[] {
  return [
    async ({ urls }, retries) => {
      const connected = await connect(name, urls);
      const redlock = new Redlock(
        connected.map(({ client }) => client),
        lockSettings(retries),
      );
      const subject = subjectOf(`lockstep on ${name}`, redlock);
      return { ...subject, close: () => subject.close().finally(() => closeAll(connected)) };
    },
    async ({ urls }) => {
      const connected = await connect(name, urls);
      const senders = connected.map(({ send }) => send);
      return { ...(await floorOn(`floor on ${name}`, senders)), close: async () => closeAll(connected) };
    },
  ];
}

async function connect(name: ClientLibrary, urls: readonly string[]): Promise<ProgramClient[]> {
  const clients = urls.map((url) => openClient(name, url));
  await Promise.all(clients.map((client) => client.connect()));
  return clients;
}

function closeAll(connected: readonly ProgramClient[]): void {
  for (const { close } of connected) close();
}
