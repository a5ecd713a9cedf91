import { Client, Events, GatewayIntentBits } from 'discord.js';
import { createClient } from 'redis';
import mongoose from 'mongoose';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('Redis error', err));

const Balance = mongoose.model(
  'Balance',
  new mongoose.Schema({
    userId: { type: String, unique: true },
    coins: { type: Number, default: 0 },
    lastDaily: Date,
  })
);

const client = new Client({ intents: [GatewayIntentBits.Guilds] });

const DAILY = 250;
const TWENTY_HOURS = 20 * 60 * 60 * 1000;

// people were spamming commands to dupe coins, so one economy command per user at a time
async function withUserLock(interaction, fn) {
  const lockKey = `lock:economy:${interaction.user.id}`;
  try {
    const locked = await redis.set(lockKey, interaction.id, { NX: true, EX: 30 });
    if (!locked) {
      await interaction.editReply('Slow down! Your last command is still running.');
      return;
    }
    await fn();
  } finally {
    await redis.del(lockKey);
  }
}

async function load(userId) {
  return (await Balance.findOne({ userId })) ?? new Balance({ userId });
}

async function daily(interaction) {
  const row = await load(interaction.user.id);
  if (row.lastDaily && Date.now() - row.lastDaily.getTime() < TWENTY_HOURS) {
    await interaction.editReply('You already got your coins, come back tomorrow.');
    return;
  }
  row.coins += DAILY;
  row.lastDaily = new Date();
  await row.save();
  await interaction.editReply(`Here are your ${DAILY} coins! You have ${row.coins} now.`);
}

async function flip(interaction) {
  const bet = interaction.options.getInteger('bet', true);
  const row = await load(interaction.user.id);
  if (bet < 1 || row.coins < bet) {
    await interaction.editReply('You do not have that many coins.');
    return;
  }
  const won = Math.random() < 0.48;
  row.coins += won ? bet : -bet;
  await row.save();
  await interaction.editReply(won ? `You win ${bet}!` : `You lose ${bet}.`);
}

client.on(Events.InteractionCreate, async (interaction) => {
  if (!interaction.isChatInputCommand()) return;
  try {
    await interaction.deferReply();
    if (interaction.commandName === 'daily') await withUserLock(interaction, () => daily(interaction));
    if (interaction.commandName === 'flip') await withUserLock(interaction, () => flip(interaction));
  } catch (err) {
    console.error(interaction.commandName, err);
  }
});

await redis.connect();
await mongoose.connect(process.env.MONGO_URL, { socketTimeoutMS: 8000, serverSelectionTimeoutMS: 5000 });
await client.login(process.env.DISCORD_TOKEN);
