import type { Handler, Row } from '../command.js';
import { Dated, Failure, fail, NULL_ARRAY, OK, type Reply } from '../reply.js';

const multi: Handler = (_, { session }) => {
  if (session.transaction !== null) throw fail('MULTI calls can not be nested');
  session.transaction = { commands: [], failed: false };
  return OK;
};

const discard: Handler = (_, { session, instance }) => {
  if (session.transaction === null) throw fail('DISCARD without MULTI');
  session.transaction = null;
  instance.unwatch(session);
  return OK;
};

const exec: Handler = (_, { session, instance }): Reply => {
  const { transaction } = session;
  if (transaction === null) throw fail('EXEC without MULTI');
  // A watched key that has expired meanwhile was changed.
  for (const { database, key } of session.watched) instance.keyspace(database).find(key);
  const { isStale } = session;
  session.transaction = null;
  instance.unwatch(session);
  if (transaction.failed) throw new Failure('EXECABORT Transaction discarded because of previous errors.');
  if (isStale) return NULL_ARRAY;
  return transaction.commands.map((argv) => {
    const reply = instance.run(argv, session);
    return new Dated(reply, session.protocol);
  });
};

const watch: Handler = (argv, { session, instance, keys }) => {
  if (session.transaction !== null) throw fail('WATCH inside MULTI is not allowed');
  if (session.isStale) return OK;
  for (const key of argv.slice(1)) {
    if (session.watched.some((it) => it.database === session.database && it.key === key)) continue;
    keys.find(key);
    instance.watch(session, session.database, key);
  }
  return OK;
};

const unwatch: Handler = (_, { session, instance }) => {
  instance.unwatch(session);
  return OK;
};

/** Transactions. */
export const TRANSACTIONS: Readonly<Record<string, Row>> = {
  discard: [1, 's', discard],
  exec: [1, 's', exec],
  multi: [1, 's', multi],
  unwatch: [1, 's', unwatch],
  watch: [-2, 's', watch, [1, -1, 1]],
};
