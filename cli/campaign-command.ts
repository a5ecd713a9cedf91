import { Argument, type Command } from 'commander';
import { parseDuration } from '../scenarios/duration.js';
import { InputError } from '../scenarios/input-error.js';
import {
  type CampaignFlags,
  type MergeFlags,
  type QueueFlags,
  type ServeFlags,
  type StatusFlags,
  USUAL_NAME,
  type WorkFlags,
} from './campaign-flags.js';
import { searchOptions } from './check-command.js';
import type { Finish, Io } from './io.js';
import { type ListOption, listOption, option } from './option.js';
import { flag, weighted, whole } from './values.js';
import { workersOption } from './workers.js';

const MOST = 1_000_000_000;
const MOST_PORT = 65_535;

const EXAMPLES = `
A campaign is a search that continues after its first violation. It consists of ranges of runs. Any machine can run any
range: alone, as one shard of several, or from a queue (BullMQ) on a Redis server. Failures are shrunk, and one is kept
per shape. Findings, counts and hashes do not depend on which machine ran which range.

Examples:
  lockstep campaign --runs 1000000                                on this machine, with all cores
  lockstep campaign --runs 1000000 --out a.json --resume          continues where it stopped
  lockstep campaign --runs 1000000 --shard 2/8 --out part-2.json  on one of eight machines
  lockstep campaign merge part-*.json                             adds the shards
  lockstep campaign --runs 1000000000 --queue redis://host:6379 --name night
  lockstep campaign work --queue redis://host:6379 --name night   joins and leaves at any time
  lockstep campaign status --queue redis://host:6379 --name night --follow
  lockstep campaign serve --queue redis://host:6379 --name night  serves a page with the progress
  lockstep campaign failures --queue redis://host:6379 --name night
  lockstep campaign --profiles "2*reference; redlock-php" --fault-classes "crash=1,partition=1; clock-step=50ms"
  lockstep campaign --libraries "redlock5; ./my-lock.ts" --fault-classes "even; 2*pauses" --runs 20000
Give the queue as LOCKSTEP_QUEUE to keep its password out of process lists.`;

/** Defines `campaign` and what can be done with one. */
export function defineCampaign(program: Command, io: Io, finish: Finish): void {
  const campaign = searchOptions(program.command('campaign').description('run a long search on many cores or machines'))
    .option('--around <scenario>', 'search around this scenario (an id of the catalogue, or a file)')
    .addOption(
      weightedOption('--profiles <list>', 'client profiles with weights: "2*reference; redlock-php"', 'profile'),
    )
    .addOption(weightedOption('--libraries <list>', 'libraries with weights: "redlock4; 2*./my-lock.ts"', 'library'))
    .addOption(
      weightedOption('--fault-classes <list>', 'fault classes with weights: "crash=1; 2*clock-step=50ms"', 'class'),
    )
    .addOption(option('--range-runs <n>', 'number of schedules per range (20000)', whole(1, MOST)))
    .addOption(option('--until-found <n>', 'stop after this many violations', whole(1, MOST)))
    .addOption(option('--shard <i/n>', 'run only every n-th range, starting with the i-th', shard))
    .option('--out <file>', 'write results to this file after each range')
    .option('--resume', 'continue from the file of --out')
    .option('--report <path>', 'write a report page here if nothing is violated (none)')
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES);
  queueOptions(campaign).action(async (flags: CampaignFlags) => {
    const { campaign: begin } = await import('./campaign.js');
    finish(await begin(flags, io));
  });
  defineWork(campaign, io, finish);
  defineReading(campaign, io, finish);
}

function defineWork(campaign: Command, io: Io, finish: Finish): void {
  queueOptions(campaign.command('work').description('run queued ranges until the campaign is over'))
    .addOption(workersOption())
    .option('--json', 'print one JSON object')
    .action(async (_: unknown, command: Command) => {
      const { work } = await import('./campaign-queue.js');
      finish(await work(command.optsWithGlobals<WorkFlags>(), io));
    });
  queueOptions(campaign.command('serve').description('serve a page with live progress and failures'))
    .addOption(option('--port <n>', 'port of the page (8080)', whole(0, MOST_PORT)))
    .action(async (_: unknown, command: Command) => {
      const { serve } = await import('./campaign-queue.js');
      finish(await serve(command.optsWithGlobals<ServeFlags>(), io));
    });
  queueOptions(campaign.command('remove').description('delete a campaign and its results')).action(
    async (_: unknown, command: Command) => {
      const { remove } = await import('./campaign-queue.js');
      finish(await remove(command.optsWithGlobals<QueueFlags>(), io));
    },
  );
}

function defineReading(campaign: Command, io: Io, finish: Finish): void {
  queueOptions(campaign.command('status').description('show the progress and the findings of a campaign'))
    .addOption(
      option('--follow [every]', 'print a line at this interval, until the campaign is over (10s)', parseDuration),
    )
    .option('--json', 'print one JSON object')
    .action(async (_: unknown, command: Command) => {
      const { status } = await import('./campaign-queue.js');
      finish(await status(command.optsWithGlobals<StatusFlags>(), io));
    });
  queueOptions(campaign.command('failures').description('write found failures as files to replay'))
    .argument('[part...]', 'files of shards, instead of a queue')
    .action(async (parts: string[], _: unknown, command: Command) => {
      const { failures } = await import('./campaign-queue.js');
      finish(await failures(parts, command.optsWithGlobals<QueueFlags>(), io));
    });
  queueOptions(campaign.command('rerun').description('re-run one range, and compare the results'))
    .addArgument(new Argument('<index>', 'index of the range, from 0').argParser(flag('<index>', whole(0, MOST))))
    .argument('[part...]', 'files of shards, instead of a queue')
    .option('--json', 'print one JSON object')
    .action(async (index: number, parts: string[], _: unknown, command: Command) => {
      const { remake } = await import('./campaign-range.js');
      finish(await remake(index, parts, command.optsWithGlobals<QueueFlags>(), io));
    });
  campaign
    .command('merge')
    .description('combine the results of shards')
    .argument('<part...>', 'files written by shards')
    .option('--out <file>', 'write the combined results here')
    .option('--json', 'print one JSON object')
    .action(async (parts: string[], _: unknown, command: Command) => {
      const { merge } = await import('./campaign.js');
      finish(merge(parts, command.optsWithGlobals<MergeFlags>(), io));
    });
}

function queueOptions(command: Command): Command {
  return command
    .option('--queue [url]', 'Redis server of the queue: redis://host:port, or rediss:// for TLS (LOCKSTEP_QUEUE)')
    .option('--name <name>', `name of the campaign on the queue (${USUAL_NAME})`);
}

function weightedOption(flags: string, description: string, what: string): ListOption {
  return listOption(flags, description, weighted(what), ';');
}

function shard(text: string): { number: number; of: number } {
  const [, number = 0, of = 0] = (/^(\d+)\/(\d+)$/.exec(text.trim()) ?? []).map(Number);
  if (number < 1 || number > of) throw new InputError(`"${text}" is no shard; write it like 2/8`);
  return { number, of };
}
