'use strict';

/**
 * One line when this version of Node cannot run calm-lab, else undefined. From 23 on TensorFlow's binding throws in
 * every operation (it calls a `util` function that Node removed). Written so that an old Node can read it too.
 * @param {string} version such as "22.11.0"
 */
function nodeProblem(version) {
  var numbers = version.split('.').map(Number);
  var major = numbers[0];
  if (major > 20 ? major < 23 : major === 20 && numbers[1] >= 19) return undefined;
  return (
    'calm-lab needs Node 20.19 or later and below 23, this is ' +
    version +
    '; install Node 22 (https://nodejs.org, or "nvm install 22") and run this again'
  );
}

module.exports = { nodeProblem: nodeProblem };
