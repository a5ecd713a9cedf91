import type { Settings } from '../../core/index.js';

/** Files in which values were read. */
export interface Source {
  /** `owner/name` on GitHub, or `npm` for what was read in a published package. */
  readonly repository: string;
  /** Commit, or name and version of the package. */
  readonly commit: string;
  readonly paths: readonly string[];
}

/** Where the values of a profile come from. */
export interface Origin {
  readonly title: string;
  readonly language: string;
  /** `null` where the project has no versions. */
  readonly version: string | null;
  readonly sources: readonly Source[];
  /** Settings and deviations on which the sources say nothing: the settings have their defaults, and it has none of these. */
  readonly unknown: readonly string[];
  /** Where the profile is simpler than the library. */
  readonly simplified: readonly string[];
  /** What is different where the library extends by itself, and only does so if it is asked to. */
  readonly watched?: Partial<Omit<Settings, 'fencing'>>;
}

function source(repository: string, commit: string, ...paths: string[]): Source {
  return { repository, commit, paths };
}

/** By profile. */
export const ORIGINS: Readonly<Record<string, Origin>> = {
  'antirez-redlock-rb': {
    title: 'antirez/redlock-rb',
    language: 'ruby',
    version: null,
    sources: [source('antirez/redlock-rb', '2af803d830733c9a9aec21c334dee7f251e5181e', 'redlock.rb')],
    unknown: [],
    simplified: [],
  },
  'redlock-rb': {
    title: 'leandromoreira/redlock-rb',
    language: 'ruby',
    version: '2.0.6',
    sources: [
      source(
        'leandromoreira/redlock-rb',
        'f176e5748a41e8b35a9a986fb6cc8eeae203a64f',
        'lib/redlock/client.rb',
        'lib/redlock/scripts.rb',
      ),
    ],
    unknown: [],
    simplified: ['an extension by the old token is one round, without its single retry'],
  },
  'redlock-py': {
    title: 'SPSCommerce/redlock-py',
    language: 'python',
    version: '2016-03',
    sources: [source('SPSCommerce/redlock-py', '42ef491061c3790307d39356b307c4318032c439', 'redlock/__init__.py')],
    unknown: [],
    simplified: [],
  },
  'redlock-php': {
    title: 'ronnylt/redlock-php',
    language: 'php',
    version: null,
    sources: [source('ronnylt/redlock-php', '535d616f243fe8d72b96870bc3ddc488bb091d9e', 'src/RedLock.php')],
    unknown: [],
    simplified: [],
  },
  'php-lock-3': {
    title: 'php-lock/lock, DistributedMutex',
    language: 'php',
    version: '3.1.1',
    sources: [
      source(
        'php-lock/lock',
        '3e64b5e1b8283b781ed95f29bd83f84389f743e7',
        'src/Mutex/DistributedMutex.php',
        'src/Mutex/AbstractSpinlockWithTokenMutex.php',
        'src/Mutex/RedisMutex.php',
        'src/Util/Loop.php',
        'src/Util/LockUtil.php',
      ),
    ],
    unknown: [],
    simplified: [
      'one token for all nodes of a try, where the library draws one for each',
      'pauses do not grow (10 ms, a quarter more each time, up to 500 ms)',
      'nodes are asked in order, not shuffled',
      'keys live for the TTL of the schedule; by default the library sets 1000 years',
    ],
  },
  'php-redis-mutex': {
    title: 'malkusch/lock, PHPRedisMutex',
    language: 'php',
    version: '2.2.1',
    sources: [
      source(
        'php-lock/lock',
        '63c1b268f521a702cb8755ed92631c1fac1775e6',
        'classes/mutex/RedisMutex.php',
        'classes/mutex/SpinlockMutex.php',
        'classes/mutex/PHPRedisMutex.php',
      ),
    ],
    unknown: ['tries', 'retryDelayUs', 'retryJitterUs', 'pauses-after-last'],
    simplified: ['the TTL of the schedule is not rounded to whole seconds'],
  },
  'redsync-2015': {
    title: 'hjr265/redsync.go',
    language: 'go',
    version: null,
    sources: [source('hjr265/redsync.go', '099d3c31768be20a17a0a8efe1c2296e6a18f649', 'redsync/mutex.go')],
    unknown: [],
    simplified: ['the monotonic reading of time.Now came with Go 1.9'],
  },
  'redsync-2020': {
    title: 'go-redsync/redsync',
    language: 'go',
    version: '2020-09',
    sources: [source('go-redsync/redsync', 'c3d68450cd543078852611a33162d06463402c26', 'mutex.go', 'redsync.go')],
    unknown: [],
    simplified: [],
  },
  'redsync-4': {
    title: 'go-redsync/redsync',
    language: 'go',
    version: '4.17',
    sources: [
      source('go-redsync/redsync', '5560bd2d477db3ce962d5f052bf695543c826751', 'mutex.go', 'redsync.go', 'scripts.go'),
    ],
    unknown: [],
    simplified: [
      'the time-out of a node is 400 ms, 5 % of the default expiry, whatever the TTL; releases and extensions have it too',
    ],
  },
  redisson: {
    title: 'Redisson, RedissonRedLock',
    language: 'java',
    version: '4.7.1-SNAPSHOT',
    sources: [
      source(
        'redisson/redisson',
        '66863978b4a92093b97c1f8c96f182a77e81d50e',
        'redisson/src/main/java/org/redisson/RedissonMultiLock.java',
        'redisson/src/main/java/org/redisson/RedissonRedLock.java',
        'redisson/src/main/java/org/redisson/RedissonLock.java',
        'redisson/src/main/java/org/redisson/renewal/RenewalTask.java',
        'redisson/src/main/java/org/redisson/renewal/LockTask.java',
        'redisson/src/main/java/org/redisson/config/Config.java',
        'redisson/src/main/java/org/redisson/config/BaseConfig.java',
        'docs/data-and-services/locks-and-synchronizers.md',
        'redisson/src/main/java/org/redisson/RedissonExpirable.java',
      ),
    ],
    unknown: ['pauses-after-last'],
    simplified: [
      'goes on to all nodes, where the library stops at a failure once it has a quorum',
      'tries again after a pause, where the library waits for a message',
      'no counter of re-entries; no PEXPIRE of all keys after an acquisition with a lease',
      'the time-out of a node is that of a reply, 3 s',
    ],
    watched: { autoExtendAtPpm: 666_667, maxExtensions: null },
  },
  'redis-distlock': {
    title: 'Redis::DistLock',
    language: 'perl',
    version: '0.07',
    sources: [source('sbertrang/redis-distlock', '1e34b5ea2b4945a4b88097d44c7bcd832dc13e82', 'lib/Redis/DistLock.pm')],
    unknown: [],
    simplified: [],
  },
  'redlock-cpp': {
    title: 'jacket-code/redlock-cpp',
    language: 'c++',
    version: null,
    sources: [source('jacket-code/redlock-cpp', 'f9f56187bab5935c0857822e7953150a8836896f', 'redlock-cpp/redlock.cpp')],
    unknown: [],
    simplified: [
      'an extension keeps its token, and its keys where it fails; the library deletes each key and sets it again with a new token, and deletes those again where it fails',
    ],
  },
  'redlock-cs': {
    title: 'KidFashion/redlock-cs',
    language: 'c#',
    version: '2.0.8-4',
    sources: [source('KidFashion/redlock-cs', '9765a542f8a78edbf7b5c6e17729124895fbc786', 'src/redlock-cs/Redlock.cs')],
    unknown: [],
    simplified: ['local time is the wall clock: a change to or from summer time is a step of an hour'],
  },
  'redlock-net': {
    title: 'samcook/RedLock.net',
    language: 'c#',
    version: '2.3.2',
    sources: [
      source(
        'samcook/RedLock.net',
        'dcfe373b3e288caac4f45b78c88b5943f8b47e42',
        'RedLockNet.SERedis/RedLock.cs',
        'RedLockNet.SERedis/Lua/Extend.lua',
        'RedLockNet.SERedis/Lua/Unlock.lua',
        'RedLockNet.SERedis/Configuration/InternallyManagedRedLockConnectionProvider.cs',
      ),
    ],
    unknown: [],
    simplified: ['three tries, without the loop around them'],
  },
  'node-redlock-4': {
    title: 'node-redlock',
    language: 'javascript',
    version: '4.2.0',
    sources: [source('mike-marcacci/node-redlock', '870778cd520f9649e80f74fa755ee0f12519c683', 'redlock.js')],
    unknown: [],
    simplified: ['a failed extension is not tried again, which could only fail'],
  },
  'node-redlock-5': {
    title: 'node-redlock',
    language: 'typescript',
    version: '5.0.0-beta.2',
    sources: [source('mike-marcacci/node-redlock', '54de94cfd7e311b8972455811436d45538fe85ed', 'src/index.ts')],
    unknown: [],
    simplified: [],
    watched: { autoExtendAtUs: 500_000 },
  },
  'node-redlock-main': {
    title: 'node-redlock, main',
    language: 'typescript',
    version: 'unpublished',
    sources: [source('mike-marcacci/node-redlock', 'afe5cf92c8247ba7b65b4ae36230f415493c44f0', 'src/index.ts')],
    unknown: [],
    simplified: [],
    watched: { autoExtendAtUs: 500_000 },
  },
  'sesamecare-redlock': {
    title: '@sesamecare-oss/redlock',
    language: 'typescript',
    version: '1.4.0',
    sources: [source('npm', '@sesamecare-oss/redlock@1.4.0', 'src/index.ts', 'src/scripts.ts')],
    unknown: [],
    simplified: [],
    watched: { autoExtendAtUs: 500_000 },
  },
  'redlock-universal': {
    title: 'redlock-universal',
    language: 'typescript',
    version: '0.8.5',
    sources: [
      source(
        'alexpota/redlock-universal',
        'e5aac0334ae621532c9734f395c6824964315f8b',
        'src/locks/RedLock.ts',
        'src/constants.ts',
        'src/utils/auto-extension.ts',
        'src/utils/crypto.ts',
      ),
    ],
    unknown: [],
    simplified: ['the check and the PEXPIRE of an extension are one command'],
    watched: { autoExtendAtPpm: 200_000, autoExtendAtUs: 1_000_000, autoExtendSpacingUs: 0 },
  },
  'redis-semaphore': {
    title: 'redis-semaphore, RedlockMutex',
    language: 'typescript',
    version: '5.8.0',
    sources: [
      source(
        'swarthy/redis-semaphore',
        '63c2d013a3182aa4deeb7c60fd1465687e11cb36',
        'src/redlockMutex/acquire.ts',
        'src/redlockMutex/refresh.ts',
        'src/Lock.ts',
        'src/utils/redlock.ts',
        'src/misc.ts',
        'src/redlockMutex/release.ts',
        'src/mutex/refresh.ts',
      ),
    ],
    unknown: [],
    simplified: ['an extension does not set missing keys on nodes outside its quorum'],
  },
  aioredlock: {
    title: 'joanvila/aioredlock',
    language: 'python',
    version: '0.7.3',
    sources: [
      source(
        'joanvila/aioredlock',
        '685d1b5b08113738083ac8a449cc56b5ce10cee2',
        'aioredlock/algorithm.py',
        'aioredlock/redis.py',
      ),
    ],
    unknown: [],
    simplified: [],
    watched: { autoExtendAtPpm: 400_000 },
  },
  pottery: {
    title: 'brainix/pottery, Redlock',
    language: 'python',
    version: '3.0.1',
    sources: [
      source(
        'brainix/pottery',
        'e2f40424c9dfc3f8de6efcfc4ff4e6d22155749c',
        'pottery/redlock.py',
        'pottery/executor.py',
        'pottery/aioredlock.py',
      ),
    ],
    unknown: [],
    simplified: [],
  },
  rslock: {
    title: 'hexcowboy/rslock',
    language: 'rust',
    version: '0.7.3',
    sources: [source('hexcowboy/rslock', 'e5d758312081540b3fbb4871a139b6349ef785c1', 'src/lock.rs')],
    unknown: [],
    simplified: [],
    watched: { autoExtendAtUs: 500_000 },
  },
  'redlock-rs': {
    title: 'badboy/redlock-rs',
    language: 'rust',
    version: null,
    sources: [source('badboy/redlock-rs', '0ca2be37d9008ca0e33960d901213493e03c0bea', 'src/redlock.rs')],
    unknown: [],
    simplified: [],
  },
  'glasslion-redlock': {
    title: 'glasslion/redlock',
    language: 'python',
    version: null,
    sources: [source('glasslion/redlock', '067035bbbc571d8572263e2833e5429e3db8dd23', 'redlock/lock.py')],
    unknown: [],
    simplified: [],
  },
  'distributed-lock-redis': {
    title: 'madelson/DistributedLock.Redis',
    language: 'c#',
    version: null,
    sources: [
      source(
        'madelson/DistributedLock',
        '55f8517e4f88024de7a4d37b56424337857e775c',
        'src/DistributedLock.Redis/RedLock/RedLockAcquire.cs',
      ),
      source(
        'madelson/DistributedLock',
        '3757293067ac4ca30a029c95830c021723af5299',
        'src/DistributedLock.Redis/RedLock/RedLockHelper.cs',
        'src/DistributedLock.Redis/RedLock/RedLockExtend.cs',
        'src/DistributedLock.Redis/RedisDistributedSynchronizationOptionsBuilder.cs',
      ),
      source(
        'madelson/DistributedLock',
        '338025c469c13ba6b4d569344956752707b35a8c',
        'src/DistributedLock.Redis/Primitives/RedisMutexPrimitive.cs',
      ),
    ],
    unknown: [
      'tries',
      'maxExtensions',
      'token-per-call',
      'pauses-after-last',
      'release-must-delete',
      'release-must-free',
      'failure-releases',
      'failure-gives-up',
      'no-alarm',
    ],
    simplified: [
      'the time-out of a node is 3 s, a tenth of the default expiry, whatever the TTL',
      'what is left has to be a tenth less than the TTL; the library bounds the time that the votes take',
    ],
  },
  'lyokato-redlock': {
    title: 'lyokato/redlock',
    language: 'elixir',
    version: null,
    sources: [
      source('lyokato/redlock', '3ed52d2bdf6e5861006a741828d082632eeb396c', 'lib/redlock/executor.ex'),
      source('lyokato/redlock', '13bccac8a20d9a4e5ddaf4a4561e988dfdb0ca55', 'lib/redlock/util.ex'),
    ],
    unknown: [
      'nodeTimeoutUs',
      'driftPpm',
      'tries',
      'retryDelayUs',
      'retryJitterUs',
      'own-key-grants',
      'extends-missing',
      'extends-present',
      'extends-any',
    ],
    simplified: ['pauses do not grow'],
  },
};
