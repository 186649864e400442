// The coordinator's page in a real browser: who has no token sees nothing, lists lead to jobs, findings and logs are shown as text
// whatever they are, a running job's log grows, and a build's address leads to its jobs.
//
//     page.mjs BUILDPOOL CHROMIUM
//
// Prints a line a check and exits 1 when one fails, 3 where the browser does not start.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { chromium } from 'playwright-core';

const [buildpool, executablePath] = process.argv.slice(2).map((path) => resolve(path));
const place = mkdtempSync(join(tmpdir(), 'page-'));
const data = join(place, 'coordinator');
const work = join(place, 'work');
mkdirSync(work);
const env = { PATH: process.env.PATH, HOME: place };
const children = [];

function run(args, { code = 0 } = {}) {
    try {
        return execFileSync(buildpool, args, { env, cwd: work, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
    } catch (error) {
        assert.equal(error.status, code, `${args.join(' ')}: ${error.stderr}`);
        return error.stdout;
    }
}

function start(args, more) {
    const child = spawn(buildpool, args, { env: { ...env, ...more }, cwd: work, stdio: ['ignore', 'pipe', 'ignore'] });
    children.push(child);
    return child;
}

function token(role) {
    return JSON.parse(run(['token', 'create', '--role', role, '--name', role, '--data-dir', data, '--json'])).token;
}

function done(what) {
    console.log(`ok   page: ${what}`);
}

async function check(browser) {
    const reader = token('submit');
    const worker = token('worker');
    const coordinator = start(['coordinator', '--listen', '127.0.0.1:0', '--data-dir', data]);
    const [url] = await new Promise((found) => createInterface(coordinator.stdout).once('line', (line) => found([line])));
    Object.assign(env, { BUILDPOOL_URL: url, BUILDPOOL_TOKEN: reader });
    const own = ['--coordinator', url, '--data-dir', join(place, 'worker'), '--name', 'w1', '--slots', '2', '--no-tools'];
    start(['worker', ...own], { BUILDPOOL_TOKEN: worker });
    const until = Date.now() + 60_000;
    while (!run(['workers', '--json']).includes('"connected":true')) {
        assert.ok(Date.now() < until, 'the worker does not come');
        await pause(50);
    }
    const markup = '<img src=x onerror=window.hacked=1>';
    const text = `echo "${markup}"; echo "src/a.c:3:2: error: ${markup}"; exit 1`;
    const failed = JSON.parse(run(['run', '--no-snapshot', '--output', 'json', '--', 'sh', '-c', text], { code: 1 }));

    const context = await browser.newContext();
    // A busy machine takes its time.
    context.setDefaultTimeout(120_000);
    const page = await context.newPage();
    const complaints = [];
    page.on('pageerror', (error) => complaints.push(String(error)));
    page.on('console', (message) => message.text().includes('Content Security') && complaints.push(message.text()));
    const home = `http${url.slice(2)}/`;
    const answer = await page.goto(home);
    assert.match(answer.headers()['content-security-policy'], /default-src 'none'/);
    await page.getByLabel('Token').fill('bp_none_of_these');
    await page.getByRole('button', { name: 'Show the pool' }).click();
    await page.getByRole('alert').filter({ hasText: 'token' }).waitFor();
    assert.equal(await page.getByRole('table').count(), 0);
    done('a wrong token shows nothing and is said to be wrong');

    await page.getByLabel('Token').fill(reader);
    await page.getByRole('button', { name: 'Show the pool' }).click();
    await page.getByRole('cell', { name: 'w1', exact: true }).first().waitFor();
    await page.getByRole('link', { name: failed.job_id.slice(0, 18) }).click();
    await page.getByText(failed.cause.text).waitFor();
    const shown = await page.locator('.finding.bad').first().innerText();
    assert.ok(shown.includes('src/a.c:3:2') && shown.includes(markup), shown);
    await page.locator('pre.log').filter({ hasText: markup }).waitFor();
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator('img').count(), 0);
    done('a list leads to a job, whose words are text');

    const go = join(place, 'go');
    const waits = `echo begun; while [ ! -e ${go} ]; do sleep 0.1; done; seq 20000; echo ended`;
    const running = run(['run', '--no-snapshot', '--detach', '--', 'sh', '-c', waits]).trim();
    await page.goto(`${home}#/jobs/${running}`);
    await page.locator('pre.log').filter({ hasText: 'begun' }).waitFor();
    writeFileSync(go, '');
    await page.locator('strong.passed').waitFor();
    await page.locator('pre.log').filter({ hasText: 'ended' }).waitFor();
    const lines = (await page.locator('pre.log').innerText()).trim().split('\n');
    assert.deepEqual([lines.length, lines[0], lines[1], lines[20000]], [20002, 'begun', '1', '20000']);
    await page.getByRole('button', { name: 'From the beginning' }).click();
    const more = page.getByRole('button', { name: 'More' });
    await more.waitFor();
    while (await more.isVisible()) {
        await more.click();
        await page.waitForFunction(() => !document.querySelector('main > button').disabled);
    }
    assert.equal(await page.locator('pre.log').innerText().then((log) => log.trim()), lines.join('\n'));
    done('a log grows as its job writes, and is there from its beginning');

    // The log is asked for before the job ends, and answered after it.
    const ends = join(place, 'ends');
    const short = run(['run', '--no-snapshot', '--detach', '--', 'sh', '-c', `echo first; while [ ! -e ${ends} ]; do sleep 0.1; done; seq 600; echo last`]).trim();
    let asked = 0;
    await page.route('**/log?**', async (route) => {
        asked += 1;
        if (asked === 1) {
            writeFileSync(ends, '');
            JSON.parse(run(['job', short, '--wait', '1m', '--json']));
        }
        await route.continue();
    });
    await page.goto(`${home}#/jobs/${short}`);
    await page.locator('strong.passed').waitFor();
    await page.locator('pre.log').filter({ hasText: 'last' }).waitFor();
    const tail = (await page.locator('pre.log').innerText()).trim().split('\n');
    assert.deepEqual([tail.length, tail[0], tail[499]], [500, '102', 'last']);
    await page.getByText('102 lines before these are not shown').waitFor();
    await page.unroute('**/log?**');
    done('a log that is answered when its job is over is shown once');

    // The click comes while the last lines are on their way.
    let release;
    const held = new Promise((free) => (release = free));
    await page.route('**/log?tail**', async (route) => held.then(() => route.continue()));
    await page.goto(home);
    await page.goto(`${home}#/jobs/${short}`);
    await page.getByRole('button', { name: 'From the beginning' }).click();
    await page.locator('pre.log').filter({ hasText: 'last' }).waitFor();
    const late = page.waitForResponse(/log\?tail/);
    release();
    await late;
    await page.unroute('**/log?tail**');
    const all = (await page.locator('pre.log').innerText()).trim().split('\n');
    assert.deepEqual([all.length, all[0], all[601]], [602, 'first', 'last']);
    done('what was asked for before is not mixed with what is');

    const twice = join(place, 'twice');
    const attempts = `echo "attempt $BUILDPOOL_ATTEMPT"; while [ ! -e ${twice}$BUILDPOOL_ATTEMPT ]; do sleep 0.1; done; echo "No space left on device" >&2; exit 1`;
    const retried = run(['run', '--no-snapshot', '--retries', '1', '--detach', '--', 'sh', '-c', attempts]).trim();
    await page.goto(`${home}#/jobs/${retried}`);
    for (const attempt of [1, 2]) {
        await page.locator('pre.log').filter({ hasText: `attempt ${attempt}` }).waitFor();
        writeFileSync(`${twice}${attempt}`, '');
    }
    await page.locator('strong.failed').waitFor();
    await page.locator('pre.log').filter({ hasText: 'No space left' }).waitFor();
    assert.equal((await page.locator('pre.log').innerText()).trim(), 'attempt 2\nNo space left on device');
    done('another attempt has another log');

    const much = join(place, 'much');
    const long = run(['run', '--no-snapshot', '--detach', '--', 'sh', '-c', `echo begun; while [ ! -e ${much} ]; do sleep 0.1; done; seq 500000; echo the end`]).trim();
    await page.goto(`${home}#/jobs/${long}`);
    await page.locator('pre.log').filter({ hasText: 'begun' }).waitFor();
    writeFileSync(much, '');
    await page.locator('pre.log').filter({ hasText: 'the end' }).waitFor();
    const rest = (await page.locator('pre.log').textContent()).trim().split('\n');
    const left = Number(/^(\d+) lines before/.exec(await page.locator('main > p').innerText())[1]);
    assert.equal(left + rest.length, 500_002);
    done('of a log that is too long for a page, the end stays and the rest is counted');

    const build = JSON.parse(run(['run', '--no-snapshot', '--several', '--output', 'json', '--', 'true', ':::', 'false'], { code: 1 }));
    assert.ok(build.build.url.startsWith(`${home}#/builds/build-`), build.build.url);
    await page.goto(build.build.url);
    await page.getByText('1 passed, 1 ended otherwise, 0 not over').waitFor();
    assert.equal(await page.getByRole('row').count(), 3);
    await page.goto(`${home}#/builds/build-01a204df-0000-7000-8000-000000000000`);
    await page.getByRole('alert').filter({ hasText: 'no job of build-01a204df' }).waitFor();
    done("a build's address leads to its jobs, and that of none says so");

    await page.getByRole('button', { name: 'Forget token' }).click();
    await page.getByLabel('Token').waitFor();
    assert.equal(await page.getByRole('row').count(), 0);
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
    assert.deepEqual(complaints, []);
    done('who leaves leaves nothing');
}

const flags = ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
const browser = await chromium.launch({ executablePath, args: flags }).catch((error) => {
    console.error(String(error));
    process.exit(3);
});
try {
    await check(browser);
} finally {
    await browser.close();
    for (const child of children) child.kill('SIGKILL');
    rmSync(place, { recursive: true, force: true });
}
