/** What the readers of `measure.mjs` throw: the file is not what it should be. Its message is for the author. */
export class Unmeasurable extends Error {
  constructor(code, message) {
    super(message)
    this.code = code
  }
}
