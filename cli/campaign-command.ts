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
A campaign is a search that goes on behind its first violation, in ranges of runs that any machine can make:
here, as one shard of several, or as the jobs of a queue (BullMQ) on a Redis server. Failures are made small,
and kept once for each shape. What is found, counted and hashed does not depend on who made which range.

Examples:
  lockstep campaign --runs 1000000                                this machine, all cores
  lockstep campaign --runs 1000000 --out a.json --resume          goes on where it was stopped
  lockstep campaign --runs 1000000 --shard 2/8 --out part-2.json  one of eight machines
  lockstep campaign merge part-*.json                             adds them up
  lockstep campaign --runs 1000000000 --queue redis://host:6379 --name night
  lockstep campaign work --queue redis://host:6379 --name night   joins and leaves at any time
  lockstep campaign status --queue redis://host:6379 --name night --follow
  lockstep campaign serve --queue redis://host:6379 --name night  a page with the progress
  lockstep campaign failures --queue redis://host:6379 --name night
  lockstep campaign --profiles "2*reference; redlock-php" --fault-classes "crash=1,partition=1; clock-step=50ms"
  lockstep campaign --libraries "redlock5; ./my-lock.ts" --fault-classes "even; 2*pauses" --runs 20000
The queue can be given as LOCKSTEP_QUEUE, so that its password is in no list of processes.`;

/** Defines `campaign` and what can be done with one. */
export function defineCampaign(program: Command, io: Io, finish: Finish): void {
  const campaign = searchOptions(
    program.command('campaign').description('search with many cores or machines, and find more than one failure'),
  )
    .option('--around <scenario>', 'search around this scenario (an id of the catalogue, or a file)')
    .addOption(
      weightedOption('--profiles <list>', 'client profiles with weights: "2*reference; redlock-php"', 'profile'),
    )
    .addOption(weightedOption('--libraries <list>', 'libraries with weights: "redlock4; 2*./my-lock.ts"', 'library'))
    .addOption(
      weightedOption('--fault-classes <list>', 'classes of faults with weights: "crash=1; 2*clock-step=50ms"', 'class'),
    )
    .addOption(option('--range-runs <n>', 'schedules of one range (20000)', whole(1, MOST)))
    .addOption(option('--until-found <n>', 'stop after so many violations', whole(1, MOST)))
    .addOption(option('--shard <i/n>', 'make every n-th range only, from the i-th on', shard))
    .option('--out <file>', 'write the results here, range by range')
    .option('--resume', 'go on with what is in the file')
    .option('--report <path>', 'where a page goes if nothing is violated (none)')
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
  queueOptions(campaign.command('work').description('make ranges of a campaign until it is over'))
    .addOption(workersOption())
    .option('--json', 'print one JSON object')
    .action(async (_: unknown, command: Command) => {
      const { work } = await import('./campaign-queue.js');
      finish(await work(command.optsWithGlobals<WorkFlags>(), io));
    });
  queueOptions(campaign.command('serve').description('a web page with live progress, and the failures'))
    .addOption(option('--port <n>', 'of the page on this machine (8080)', whole(0, MOST_PORT)))
    .action(async (_: unknown, command: Command) => {
      const { serve } = await import('./campaign-queue.js');
      finish(await serve(command.optsWithGlobals<ServeFlags>(), io));
    });
  queueOptions(campaign.command('remove').description('forget a campaign, with all that it found')).action(
    async (_: unknown, command: Command) => {
      const { remove } = await import('./campaign-queue.js');
      finish(await remove(command.optsWithGlobals<QueueFlags>(), io));
    },
  );
}

function defineReading(campaign: Command, io: Io, finish: Finish): void {
  queueOptions(campaign.command('status').description('how far a campaign is, and what it has found'))
    .addOption(option('--follow [every]', 'a line now and then, until it is over (10s)', parseDuration))
    .option('--json', 'print one JSON object')
    .action(async (_: unknown, command: Command) => {
      const { status } = await import('./campaign-queue.js');
      finish(await status(command.optsWithGlobals<StatusFlags>(), io));
    });
  queueOptions(campaign.command('failures').description('write the failures that were found as scenarios'))
    .argument('[part...]', 'files of shards, instead of a queue')
    .action(async (parts: string[], _: unknown, command: Command) => {
      const { failures } = await import('./campaign-queue.js');
      finish(await failures(parts, command.optsWithGlobals<QueueFlags>(), io));
    });
  queueOptions(campaign.command('rerun').description('run one range again, and compare the results'))
    .addArgument(new Argument('<index>', 'from 0').argParser(flag('<index>', whole(0, MOST))))
    .argument('[part...]', 'files of shards, instead of a queue')
    .option('--json', 'print one JSON object')
    .action(async (index: number, parts: string[], _: unknown, command: Command) => {
      const { remake } = await import('./campaign-range.js');
      finish(await remake(index, parts, command.optsWithGlobals<QueueFlags>(), io));
    });
  campaign
    .command('merge')
    .description('add up what shards came to')
    .argument('<part...>', 'files that shards have written')
    .option('--out <file>', 'write the sum here')
    .option('--json', 'print one JSON object')
    .action(async (parts: string[], _: unknown, command: Command) => {
      const { merge } = await import('./campaign.js');
      finish(merge(parts, command.optsWithGlobals<MergeFlags>(), io));
    });
}

function queueOptions(command: Command): Command {
  return command
    .option('--queue [url]', 'a Redis server: redis://host:port, or rediss:// for TLS (LOCKSTEP_QUEUE)')
    .option('--name <name>', `what the campaign is called on it (${USUAL_NAME})`);
}

function weightedOption(flags: string, description: string, what: string): ListOption {
  return listOption(flags, description, weighted(what), ';');
}

function shard(text: string): { number: number; of: number } {
  const [, number = 0, of = 0] = (/^(\d+)\/(\d+)$/.exec(text.trim()) ?? []).map(Number);
  if (number < 1 || number > of) throw new InputError(`"${text}" is no shard; write it like 2/8`);
  return { number, of };
}
