import { at } from '../arguments.js';
import { type Call, type Command, container, type Handler, type Row } from '../command.js';
import { Push, type Reply, Several } from '../reply.js';
import type { Session } from '../session.js';
import { matches } from '../text.js';

type Kind = 'channels' | 'patterns' | 'shardChannels';

const WORDS: Readonly<Record<Kind, string>> = {
  channels: 'subscribe',
  patterns: 'psubscribe',
  shardChannels: 'ssubscribe',
};

function countOf(session: Session, kind: Kind): number {
  return kind === 'shardChannels' ? session.shardChannels.size : session.subscriptions;
}

const subscribe =
  (kind: Kind): Handler =>
  (argv, { session }) =>
    new Several(
      argv.slice(1).map((name) => {
        session[kind].add(name);
        return new Push([WORDS[kind], name, countOf(session, kind)]);
      }),
    );

function unsubscribeOf(word: string): string {
  return word.replace('subscribe', 'unsubscribe');
}

const unsubscribe =
  (kind: Kind): Handler =>
  (argv, { session }) => {
    const names: readonly (string | null)[] = argv.length > 1 ? argv.slice(1) : [...session[kind]];
    return new Several(
      (names.length > 0 ? names : [null]).map((name) => {
        if (name !== null) session[kind].delete(name);
        return new Push([unsubscribeOf(WORDS[kind]), name, countOf(session, kind)]);
      }),
    );
  };

/** Sends a message to all who listen, in the order of their connections; says to how many. */
function publishTo(channel: string, message: string, { instance }: Call): number {
  let count = 0;
  for (const session of instance.sessions.keys()) {
    if (session.channels.has(channel)) {
      instance.push(session, new Push(['message', channel, message]));
      count++;
    }
  }
  for (const session of instance.sessions.keys()) {
    for (const pattern of session.patterns) {
      if (!matches(pattern, channel)) continue;
      instance.push(session, new Push(['pmessage', pattern, channel, message]));
      count++;
    }
  }
  return count;
}

const publish: Handler = (argv, call) => publishTo(at(argv, 1), at(argv, 2), call);

const spublish: Handler = (argv, { instance }) => {
  let count = 0;
  for (const session of instance.sessions.keys()) {
    if (!session.shardChannels.has(at(argv, 1))) continue;
    instance.push(session, new Push(['smessage', at(argv, 1), at(argv, 2)]));
    count++;
  }
  return count;
};

/** By name: how many connections listen. */
function listeners(kind: 'channels' | 'shardChannels', { instance }: Call): Map<string, number> {
  const counts = new Map<string, number>();
  for (const session of instance.sessions.keys())
    for (const name of session[kind]) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

const listed =
  (kind: 'channels' | 'shardChannels'): Handler =>
  (argv, call) => {
    const names = [...listeners(kind, call).keys()];
    return argv.length > 2 ? names.filter((name) => matches(at(argv, 2), name)) : names;
  };

const counted =
  (kind: 'channels' | 'shardChannels'): Handler =>
  (argv, call): Reply => {
    const counts = listeners(kind, call);
    return argv.slice(2).flatMap((name): Reply[] => [name, counts.get(name) ?? 0]);
  };

const patterns: Handler = (_, { instance }) =>
  new Set([...instance.sessions.keys()].flatMap((session) => [...session.patterns])).size;

/** What subscriptions are known. */
export const PUBSUB: Command = container('pubsub', 'r', {
  channels: [-2, '', listed('channels')],
  numpat: [2, '', patterns],
  numsub: [-2, '', counted('channels')],
  shardchannels: [-2, '', listed('shardChannels')],
  shardnumsub: [-2, '', counted('shardChannels')],
});

/** Publishing and subscribing. */
export const PUBLISHING: Readonly<Record<string, Row>> = {
  psubscribe: [-2, 's', subscribe('patterns')],
  publish: [3, 'p', publish],
  punsubscribe: [-1, 's', unsubscribe('patterns')],
  spublish: [3, 'p', spublish, [1, 1, 1]],
  ssubscribe: [-2, 's', subscribe('shardChannels'), [1, -1, 1]],
  subscribe: [-2, 's', subscribe('channels')],
  sunsubscribe: [-1, 's', unsubscribe('shardChannels'), [1, -1, 1]],
  unsubscribe: [-1, 's', unsubscribe('channels')],
};
