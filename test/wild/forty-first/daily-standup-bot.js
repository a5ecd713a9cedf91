const os = require('os');
const cron = require('node-cron');
const dayjs = require('dayjs');
const utc = require('dayjs/plugin/utc');
const Redis = require('ioredis');
const { Client, GatewayIntentBits, EmbedBuilder } = require('discord.js');

dayjs.extend(utc);

const redis = new Redis(process.env.REDIS_URL);
const client = new Client({ intents: [GatewayIntentBits.Guilds] });

const QUESTIONS = [
  'What did you do yesterday?',
  'What are you doing today?',
  'Anything in the way?',
];

// fly.io keeps two machines running, both of them fire the cron.
// Whoever writes the key of the day first posts. The key is NOT deleted afterwards,
// otherwise the other machine (clock a bit late) would post again.
// If Discord is down at nine there is no standup post that day, somebody can use
// /standup by hand. An @here twice annoys people a lot more than none.
async function firstToday(guildId) {
  const day = dayjs.utc().format('YYYY-MM-DD');
  const reply = await redis.set(
    `standup:${guildId}:${day}`,
    `${os.hostname()}:${process.pid}`,
    'EX',
    60 * 60 * 26,
    'NX'
  );
  return reply === 'OK';
}

async function postStandup(guild) {
  const channelId = await redis.hget('standup:channels', guild.id);
  if (!channelId) return;
  const channel = await client.channels.fetch(channelId);

  if (!(await firstToday(guild.id))) {
    console.log(`[standup] ${guild.name}: already posted by the other one`);
    return;
  }

  const embed = new EmbedBuilder()
    .setTitle(`Standup ${dayjs.utc().format('dddd, D MMMM')}`)
    .setDescription(QUESTIONS.map((q, i) => `**${i + 1}.** ${q}`).join('\n'));

  const msg = await channel.send({ content: '@here', embeds: [embed] });
  await msg.startThread({ name: `standup-${dayjs.utc().format('MM-DD')}` });
}

client.once('ready', () => {
  console.log(`logged in as ${client.user.tag}`);
  cron.schedule(
    '0 9 * * 1-5',
    async () => {
      for (const guild of client.guilds.cache.values()) {
        try {
          await postStandup(guild);
        } catch (err) {
          console.error(`[standup] ${guild.name}`, err);
        }
      }
    },
    { timezone: 'Etc/UTC' }
  );
});

client.login(process.env.DISCORD_TOKEN);
