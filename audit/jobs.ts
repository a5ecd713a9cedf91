import { takerIn } from './plan.js';
import type { Runnable } from './subject.js';

/* What the jobs of queues bring, and whether these try them again. */

/** How often BullMQ tries a job, where that is more than once: `attempts: 5`. A consumer of Kafka tries again whatever throws. */
const TRIES_AGAIN = /\battempts\b["'`]?\s*:\s*(?:[2-9]|[1-9]\d+)\b/;

/** Whether a function does the jobs of a queue that tries again what has failed. */
export function isRetried({ bench: { program }, how }: Runnable): boolean {
  const isOfKafka = program.sources.some(
    ({ imports, text }) => imports.includes('kafkajs') && /\beach(?:Message|Batch)\b/.test(text),
  );
  return isOfKafka || (takerIn(how.plan) === 'Worker' && program.texts.some((it) => TRIES_AGAIN.test(it)));
}

/** What a job has to be done with, besides the things that it is about: `job.data.changes`. */
const OF_JOB = /\{([^{}]*)\}\s*=\s*(?:[\w.]+\.parse\(\s*)?job\.data\b|\bjob\.data\.(\w+)/g;
const IS_PAYLOAD =
  /^(?:changes|items|lines|payload|body|rows|records|entries|delta|amount\w*|cents|quantity|qty|message|patch|updates?|diff|operations?|movements?|events?|points)$/i;

/** What jobs of such a type are about has happened once: `Job<CarrierEvent>`. */
const HAPPENED = /\b(?:Job|Worker)<(\w*(?:Event|Change|Movement|Delta|Reading|Entry|Operation))\b/g;
/** By an id of its own, a second job for the same thing is told from another one. */
const OWN_ID = /^(?:u?id|(?:event|message|delivery|change|movement|reading|entry|operation|job)_?id|idempotencyKey)$/i;
const TELLS_WHICH = /(?:^|[a-z])(?:i|I)ds?$|^(?:key|name|type|kind|slug)$/;

/** Whether a job of a queue that takes a job for done whose function returns has data that no other job brings again. */
export function bringsData({ bench: { program }, how }: Runnable): boolean {
  if (takerIn(how.plan) !== 'Worker') return false;
  return program.sources.some(({ text, types }) => {
    const names = [...text.matchAll(OF_JOB)].flatMap(([, list = '', name = '']) => [name, ...list.split(/[,:]/)]);
    const said = [...text.matchAll(HAPPENED)].map(([, name = '']) => types.get(name) ?? []);
    const isMore = said.some(
      (all) =>
        all.filter(({ name }) => !TELLS_WHICH.test(name)).length > 1 && !all.some(({ name }) => OWN_ID.test(name)),
    );
    return isMore || names.some((it) => IS_PAYLOAD.test(it.trim()));
  });
}
