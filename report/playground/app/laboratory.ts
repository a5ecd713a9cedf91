import type { Job, Told } from './work.js';

/** A worker of this page, made of the page's own script: nothing is fetched, so that it works from a file too. */
export class Laboratory {
  private worker: Worker | null = null;
  private url: string | null = null;

  /** Begins a job; one that is at work ends. */
  begin(job: Job, onTold: (told: Told) => void): void {
    this.end();
    const source = document.getElementById('playground')?.textContent ?? '';
    this.url ??= URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
    const worker = new Worker(this.url);
    worker.onmessage = ({ data }: MessageEvent<Told>) => onTold(data);
    worker.onerror = (event) => {
      event.preventDefault();
      onTold({ kind: 'problem', message: `the search has failed: ${event.message}` });
    };
    worker.postMessage(job);
    this.worker = worker;
  }

  /** Ends what is at work. */
  end(): void {
    this.worker?.terminate();
    this.worker = null;
  }
}
