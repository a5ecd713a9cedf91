/**
 * The lock under its former name, for one version.
 *
 * @deprecated Install and import `lockstep-redlock`.
 */
export * from 'lockstep-redlock';
