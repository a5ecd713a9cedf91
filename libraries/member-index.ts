/** Which of two libraries a client runs: the first has the clients with odd numbers in their names, c1 among them. */
export function memberIndex(client: string): 0 | 1 {
  return Number(client.slice(1)) % 2 === 1 ? 0 : 1;
}
