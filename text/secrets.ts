const HIDDEN = '***';

/** `url` fit to be shown: without its password, also where one stands among the options behind the question mark. */
export function withoutPassword(url: string): string {
  // To the last "@": a password that is not encoded may have "@" or "/" in it.
  return (
    url
      .replace(
        /^([a-z][a-z0-9+.-]*:\/\/)?([^/@:]*):.*@/is,
        (_, scheme = '', user = '') => `${scheme}${user}:${HIDDEN}@`,
      )
      // What stands for a port and is none may be the first half of a password with a comma.
      .replace(/^([a-z][a-z0-9+.-]*:\/\/[^/@:[\]]*):(?!\d*(?:[/?#]|$))[^@]*$/is, `$1:${HIDDEN}`)
      .replace(/([?&][^=&]*pass[^=&]*=)[^&]*/gi, `$1${HIDDEN}`)
  );
}

/** `text` with all addresses in it fit to be shown. */
export function withoutPasswords(text: string): string {
  // "redis://host:port, or …" is no address with half a password.
  return text.replace(/[a-z][a-z0-9+.-]*:\/\/\S*?[@?]\S*/gi, withoutPassword);
}

/** Where errors of a client have others. */
const INNER = ['cause', 'lastNodeError', 'errors', 'previousErrors'] as const;

/**
 * Takes out of an error of a client what the command was sent with: it may be a password, and errors are written into
 * logs. The error stays what it is.
 */
export function withoutArguments<T>(error: T): T {
  if (Array.isArray(error)) error.forEach(withoutArguments);
  if (!(error instanceof Error)) return error;
  const { command } = error as { command?: { name?: unknown } };
  if (command !== undefined) Object.assign(error, { command: { name: command.name, args: [] } });
  // Servers that do not know a command repeat what it was sent with.
  error.message = withoutEcho(error.message);
  if (error.stack !== undefined) error.stack = withoutEcho(error.stack);
  for (const name of INNER) if (name in error) withoutArguments((error as Partial<Record<string, unknown>>)[name]);
  return error;
}

function withoutEcho(text: string): string {
  return text.replace(/(with args beginning with:).*/gi, `$1 ${HIDDEN}`);
}
