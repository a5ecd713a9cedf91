'use strict';

const { randomBytes } = require('crypto');
const { performance } = require('perf_hooks');

/*
 * mooring: tie up at most of the bollards or at none.
 *
 *   const line = await mooring.acquire('ship:12', 8000)
 *   if (!line) return            // someone else is moored there
 *   try { while (line.remaining() > 500) await unloadOne() } finally { await line.release() }
 */

const scripts = {
  mooringCast: {
    numberOfKeys: 1,
    lua: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
  },
  mooringHold: {
    numberOfKeys: 1,
    // never cuts the time that is left
    lua: [
      "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end",
      "if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end",
      'return 1',
    ].join('\n'),
  },
};

function within(ms, promise) {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve({ failed: 'timeout' }), ms);
    promise.then(
      (reply) => { clearTimeout(timer); resolve({ reply }); },
      (err) => { clearTimeout(timer); resolve({ failed: err.message }); },
    );
  });
}

class Mooring {
  constructor(nodes, { prefix = 'mooring:', tries = 5, pause = 150, patience = 300 } = {}) {
    for (const node of nodes) {
      for (const [name, def] of Object.entries(scripts)) {
        if (typeof node[name] !== 'function') node.defineCommand(name, def);
      }
    }
    Object.assign(this, { nodes, prefix, tries, pause, patience });
    this.quorum = Math.floor(nodes.length / 2) + 1;
  }

  async everywhere(expected, ms, command) {
    const all = await Promise.all(this.nodes.map((node) => within(Math.min(ms, this.patience), command(node))));
    return all.filter((a) => a.failed === undefined && a.reply === expected).length;
  }

  async acquire(resource, ttlMs) {
    const key = this.prefix + resource;
    for (let i = 0; i < this.tries; i++) {
      if (i > 0) await new Promise((r) => setTimeout(r, this.pause * (0.5 + Math.random())));
      const value = randomBytes(20).toString('base64');
      const sent = performance.now();
      const got = await this.everywhere('OK', ttlMs / 3, (n) => n.set(key, value, 'PX', ttlMs, 'NX'));
      const end = sent + this.worth(ttlMs);
      if (got >= this.quorum && performance.now() < end) return this.line(key, value, end);
      await this.everywhere(1, ttlMs / 3, (n) => n.mooringCast(key, value));
    }
    return null;
  }

  // what a ttl is worth to us, allowing for clocks that don't run alike
  worth(ttlMs) {
    return ttlMs - Math.round(ttlMs * 0.01) - 2;
  }

  line(key, value, end) {
    let cast = false;
    const remaining = () => (cast ? 0 : Math.max(0, end - performance.now()));
    return {
      key,
      remaining,
      isValid: () => remaining() > 0,
      // wall time for logs; worked out from the monotonic clock each time
      get expiresAt() {
        return new Date(Date.now() + remaining());
      },
      extend: async (ttlMs) => {
        if (remaining() <= 0) return false;
        const sent = performance.now();
        const held = await this.everywhere(1, ttlMs / 3, (n) => n.mooringHold(key, value, ttlMs));
        if (held < this.quorum) return false;
        end = Math.max(end, sent + this.worth(ttlMs));
        return remaining() > 0;
      },
      release: async () => {
        if (cast) return false;
        cast = true;
        return (await this.everywhere(1, 1000, (n) => n.mooringCast(key, value))) >= this.quorum;
      },
    };
  }
}

exports.Mooring = Mooring;
exports.make = ({ nodes }) => new Mooring(nodes);
