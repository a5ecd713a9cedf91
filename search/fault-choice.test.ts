import { describe, expect, it } from 'vitest';
import { faultChoice, withFaults } from './fault-choice.js';
import { type FaultModel, NO_STRETCH, WITHIN_ASSUMPTIONS } from './fault-model.js';

function changed(text: string, base: FaultModel = WITHIN_ASSUMPTIONS): Partial<FaultModel> {
  const faultModel: FaultModel = withFaults(base, faultChoice(text));
  const differs = (name: keyof FaultModel): boolean => JSON.stringify(faultModel[name]) !== JSON.stringify(base[name]);
  return Object.fromEntries(
    (Object.keys(faultModel) as (keyof FaultModel)[]).filter(differs).map((it) => [it, faultModel[it]]),
  );
}

const { stretch } = WITHIN_ASSUMPTIONS;

describe('faults that are changes of the default', () => {
  it.each<[string, Partial<FaultModel>]>([
    ['+crash=1', { crashes: 3, mostDown: 3 }],
    ['+power-loss', { powerLosses: 3, mostDown: 3 }],
    ['-crash', { crashes: 0 }],
    ['-power-loss', { powerLosses: 0 }],
    ['-crash,-power-loss', { crashes: 0, powerLosses: 0, stretch: { ...stretch, 'restart-delay': 0 } }],
    ['-suspend', { suspends: 0 }],
    ['+loss=2%', { lossPpm: 70_000 }],
    ['+clock-step=200ms,-clock-drift', { stepUs: 200_000, stretch: { ...stretch, 'clock-drift': 0 } }],
    ['-clock-step', { stretch: { ...stretch, 'clock-step': 0 } }],
    ['+data-loss=2', { flushes: 2 }],
    ['-data-loss', { stretch: { ...stretch, 'data-loss': 0 } }],
    ['-late, -wall-step', { stretch: { ...stretch, 'write-delay': 0 }, wallSteps: 0 }],
    ['+replica-lag', { replicaLagUs: 100_000 }],
  ])('%s', (text, expected) => {
    expect(changed(text)).toEqual(expected);
  });

  it('changes what a scenario has, around one', () => {
    const around: FaultModel = { ...WITHIN_ASSUMPTIONS, stretch: NO_STRETCH, stepUs: 106_000 };
    expect(changed('+clock-step=1ms,+pause', around)).toEqual({
      stepUs: 107_000,
      stretch: { ...NO_STRETCH, 'clock-step': 1 },
      pauses: 3,
    });
    expect(changed('-clock-step', around)).toEqual({ stepUs: null });
  });
});

describe('faults that are the only ones', () => {
  it('has crashes of processes and losses of power apart', () => {
    const faultModel = withFaults(WITHIN_ASSUMPTIONS, faultChoice('crash=2'));
    expect(faultModel).toMatchObject({ crashes: 2, powerLosses: 0, mostDown: null, outages: false, disks: false });
    expect(faultModel.stretch).toEqual({ ...NO_STRETCH, 'restart-delay': 1 });
    expect(withFaults(WITHIN_ASSUMPTIONS, faultChoice('power-loss'))).toMatchObject({ crashes: 0, powerLosses: 1 });
  });

  it('has late writes up to their bound', () => {
    expect(withFaults(WITHIN_ASSUMPTIONS, faultChoice('late=50%')).stretch).toEqual({
      ...NO_STRETCH,
      'write-delay': 0.5,
    });
  });
});

describe('faults that make no sense', () => {
  it.each([
    ['crash=1,+pause=1', /^"\+pause" changes the default, which others here replace; write \+ or - before all/],
    ['-suspend=1', '"-suspend" takes all of it; leave out the amount'],
    ['+crash,-crash', '"crash" is named twice; name each fault once'],
    ['+crsh', '"crsh" is not a fault; did you mean "crash"?'],
    ['-none', '"none" leaves no other fault; leave it out, or the others'],
    ['', /^"" is not a fault; /],
  ])('%s', (text, sentence) => {
    expect(() => faultChoice(text)).toThrow(sentence);
  });

  it('are no more messages than there are', () => {
    expect(() => changed('+loss=98%')).toThrow('--faults: "+loss" and what there is by default are more than 100 %');
  });
});
