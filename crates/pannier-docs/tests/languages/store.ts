import { readFile, writeFile } from 'node:fs/promises';

/** What a store keeps. */
export interface Entry<T> {
  readonly key: string;
  value: T;
  expires?: Date;
}

export type Listener<T> = (entry: Entry<T>) => void;

export enum Mode {
  ReadOnly,
  ReadWrite,
}

/** Keeps entries in a file. */
export abstract class Store<T> {
  private entries = new Map<string, Entry<T>>();

  constructor(private readonly path: string, private readonly mode: Mode) {}

  /** Reads the file. */
  async load(): Promise<void> {
    const text = await readFile(this.path, 'utf8');
    for (const entry of JSON.parse(text) as Entry<T>[]) {
      this.entries.set(entry.key, entry);
    }
  }

  get(key: string): T | undefined {
    const entry = this.entries.get(key);
    return entry && !isExpired(entry) ? entry.value : undefined;
  }

  abstract describe(): string;
}

// An entry without a date stays.
export function isExpired(entry: Entry<unknown>, now = new Date()): boolean {
  return entry.expires !== undefined && entry.expires < now;
}

export const save = async (path: string, entries: unknown[]): Promise<void> => {
  await writeFile(path, JSON.stringify(entries));
};
