import { expect, it } from 'vitest';
import { SOCKET_CLIENTS } from '../../bench/socket-locks.js';
import { hashesOf } from '../testing/hashes-of.js';

it.each(Object.keys(SOCKET_CLIENTS))(
  '%s gives one hash for one seed in many runs, in a fresh process, and while garbage is collected',
  async (id) => {
    expect((await hashesOf(id)).size).toBe(1);
  },
);
