import { Office } from './election.js';

/** Is in charge until it is told that it is not. */
export class StaleOffice extends Office {
  override inCharge(): boolean {
    return this.until > 0;
  }
}
