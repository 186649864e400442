// The coordinator's page in a real browser, with real jobs, and with a pool of 200 workers and 10,000 finished jobs.
//
//     main.mjs BUILDPOOL CHROMIUM
//
// Prints a line a check and exits 1 when one fails, 3 where the browser does not start. PAGE_FILES names a directory whose
// files are used instead of those in the program, ONLY the checks to run: `log,crowd`.
import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { access } from './access.mjs';
import { crowd } from './crowd.mjs';
import { details, prepare } from './details.mjs';
import { jobs } from './jobs.mjs';
import { log } from './log.mjs';
import { pool } from './pool.mjs';
import { Scene } from './scene.mjs';

const [buildpool, chromium] = process.argv.slice(2).map((path) => resolve(path));

async function check(name, checks, prepare = async () => {}) {
    if (process.env.ONLY && !process.env.ONLY.split(',').includes(name)) return;
    const scene = new Scene(buildpool);
    try {
        await prepare(scene);
        await scene.open(chromium).catch((error) => {
            console.error(String(error));
            scene.close();
            process.exit(3);
        });
        await checks(scene, (what) => console.log(`ok   page: ${what}`));
        assert.deepEqual(scene.complaints ?? [], [], name);
    } finally {
        await scene.browser?.close();
        scene.close();
    }
}

async function small(scene) {
    for (const role of ['admin', 'read', 'worker']) scene.token(role);
    await scene.coordinator();
    await scene.worker('w1');
}

await check('access', access, small);
await check('jobs', jobs, small);
await check('log', log, small);
await check('details', details, prepare);
await check('pool', pool, small);
await check('crowd', crowd);
