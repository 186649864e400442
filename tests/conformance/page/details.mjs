// What a job leaves behind, on its page: tests, crash, artifacts, next steps, the raw log; builds; the history of tests.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, fits } from './scene.mjs';

/** A red pixel. */
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';
const REPORT = `echo "<testsuite name='s'><testcase classname='cart' name='adds' time='0.25'/><testcase classname='cart' name='totals' time='1.5'>$RESULT</testcase></testsuite>" > out.xml; test -z "$RESULT"`;
const NO = "RESULT=<failure message='3 is not 2'/>";
const FRAME = 'CartView.total(of:)';

/** Writes a crash file for its own process, as macOS does, and dies. */
const CRASH = (directory) => `at=$(date -u '+%Y-%m-%d %H:%M:%S.0000 +0000')
printf '{"bug_type":"309"}\\n{"procName":"Shop","pid":%s,"procLaunch":"%s","captureTime":"%s","exception":{"type":"EXC_BREAKPOINT","signal":"SIGTRAP"},"faultingThread":0,"threads":[{"triggered":true,"frames":[{"imageOffset":4096,"symbol":"${FRAME}","symbolLocation":36,"imageIndex":0}]}],"usedImages":[{"name":"Shop","base":0,"uuid":"0"}]}' $$ "$at" "$at" > ${directory}/Shop.ips
echo 'Shop/Cart.swift:3: Fatal error: no total'; kill -TRAP $$`;

function repository(scene) {
    const git = (...args) => execFileSync('git', ['-c', 'user.name=n', '-c', 'user.email=e@example.org', ...args], { cwd: scene.work });
    writeFileSync(join(scene.work, 'code'), '1');
    git('init', '-q', '-b', 'topic');
    git('add', '-A');
    git('commit', '-qm', 'first');
}

/** A worker with a directory of crash files. */
export async function prepare(scene) {
    for (const role of ['admin', 'read', 'worker']) scene.token(role);
    await scene.coordinator();
    scene.crashes = join(scene.place, 'crashes');
    mkdirSync(scene.crashes);
    const config = join(scene.place, 'worker.toml');
    writeFileSync(config, `crash_directories = ["${scene.crashes}"]\n`);
    await scene.worker('w1', 2, ['--config', config]);
    await scene.worker('w2', 2);
    repository(scene);
}

const json = (scene, args, code) => JSON.parse(scene.run(['run', '--output', 'json', ...args], { code }));

async function elsewhere(scene, page, done) {
    const result = scene.result('echo where', 0);
    const other = result.worker === 'w1' ? 'w2' : 'w1';
    await page.goto(`${scene.home}#/jobs/${result.job_id}`);
    await page.getByRole('button', { name: 'Retry on a worker…' }).click();
    await page.locator('.elsewhere select').selectOption(other);
    await accessible(page, 'the choice of a worker');
    await page.getByRole('button', { name: `Retry on ${other}` }).click();
    await page.waitForURL((url) => url.hash.startsWith('#/jobs/') && !url.hash.includes(result.job_id));
    await page.locator('.verdict').getByText('passed').waitFor();
    await page.locator('.facts').getByText(`name=${other}`).waitFor();
    await page.locator('.facts').getByRole('link', { name: other }).waitFor();
    await page.locator('.runs a').nth(1).waitFor();
    assert.equal(await page.locator('.runs [aria-current]').count(), 1);
    done('a job is retried on a chosen worker, and its page shows the runs of the same command');
}

async function history(scene, page, done) {
    const report = ['--report', 'out.xml', '--env'];
    json(scene, [...report, 'RESULT=', '--', 'sh', '-c', REPORT], 0);
    json(scene, [...report, NO, '--', 'sh', '-c', REPORT], 1);
    const failed = json(scene, [...report, NO, '--', 'sh', '-c', REPORT], 1);
    await page.goto(`${scene.home}#/jobs/${failed.job_id}`);
    const rows = page.locator('table.tests tbody tr');
    await rows.nth(1).waitFor();
    assert.match(await rows.nth(0).innerText(), /totals.*flaky/s, 'the failed one is first, and marked as flaky');
    assert.equal(await rows.nth(0).locator('.dots i').count(), 3);
    assert.equal(await rows.nth(0).locator('.dots .bad').count(), 2);
    await page.goto(`${scene.home}#/tests?kind=flaky`);
    await page.locator('table.tests').getByText('flaky').first().waitFor();
    assert.equal(await page.locator('table.tests tbody tr').count(), 1);
    await page.getByRole('link', { name: 'Slow' }).click();
    await page.locator('table.tests tbody tr').nth(1).waitFor();
    await page.getByRole('link', { name: 'Failing' }).click();
    await page.locator('table.tests').getByRole('link').first().click();
    await page.waitForURL(/#\/jobs\//);
    done('tests have their last runs as dots and a mark if they are flaky, on the page of a job and on their own');
}

async function crash(scene, page, done) {
    const crashed = json(scene, ['--no-snapshot', '--label', 'name=w1', '--', 'sh', '-c', CRASH(scene.crashes)], 133);
    await page.goto(`${scene.home}#/jobs/${crashed.job_id}`);
    await page.locator('.frames').getByText(FRAME).waitFor();
    await page.locator('.finding header').filter({ hasText: 'EXC_BREAKPOINT · SIGTRAP' }).waitFor();
    await page.getByRole('heading', { name: /^at=\$\(date/, level: 1 }).waitFor();
    assert.match(await page.locator('link[rel=icon]').getAttribute('href'), /^blob:/);
    await accessible(page, 'a crash');
    const rejected = json(scene, ['--no-snapshot', '--label', 'no=such', '--', 'true'], 125);
    await page.goto(`${scene.home}#/jobs/${rejected.job_id}`);
    await page.locator('.next code').getByText('buildpool workers', { exact: true }).waitFor();
    done('a crash report shows its frames, the icon of the tab the end, and a result the next steps');
}

async function artifacts(scene, page, done) {
    const text = `mkdir shots; echo ${PNG} | base64 -d > shots/first.png; printf 'one\\ntwo <b>\\n' > notes.txt; head -c 3000 /dev/zero > app.ipa`;
    const made = json(scene, ['--artifact', 'shots/*', '--artifact', '*.txt', '--artifact', '*.ipa', '--', 'sh', '-c', text], 0);
    assert.equal(made.artifacts.length, 3, JSON.stringify(made.artifacts));
    await page.goto(`${scene.home}#/jobs/${made.job_id}`);
    const image = page.getByRole('img', { name: 'Artifact shots/first.png' });
    await image.waitFor();
    await scene.until('the image is drawn', () => image.evaluate((one) => one.complete && one.naturalWidth === 1));
    const row = (name) => page.locator('.artifacts li').filter({ hasText: name });
    await row('notes.txt').getByRole('button', { name: 'Show' }).click();
    await row('notes.txt').locator('pre').getByText('two <b>').waitFor();
    assert.equal(await row('app.ipa').getByRole('button', { name: 'Show' }).count(), 0);
    const saved = page.waitForEvent('download');
    await row('app.ipa').getByRole('button', { name: 'Download' }).click();
    assert.equal((await saved).suggestedFilename(), 'app.ipa');
    await accessible(page, 'artifacts');
    const opened = page.context().waitForEvent('page');
    await page.getByRole('button', { name: 'Raw' }).click();
    const raw = await opened;
    await scene.until('the raw log shows', () => raw.url().startsWith('blob:'));
    await raw.close();
    done('images and text of artifacts show, others are downloaded, and the raw log opens');
}

async function builds(scene, page, done) {
    const commands = ['true', ':::', 'sh', '-c', 'echo "src/a.c:3:2: error: no such name"; exit 1'];
    const build = json(scene, ['--no-snapshot', '--several', '--on', 'name=w1', '--on', 'name=w2', '--', ...commands], 1);
    await page.goto(build.build.url);
    await page.getByText('2 passed, 2 ended otherwise, 0 not over').waitFor();
    const heads = await page.locator('.grid thead th').allInnerTexts();
    assert.deepEqual(heads.slice(1).sort(), ['name=w1', 'name=w2']);
    assert.equal(await page.locator('.grid .verdict-cell').count(), 4);
    assert.equal(await page.locator('.grid .verdict-cell.bad').count(), 2);
    await page.locator('.finding').filter({ hasText: 'src/a.c:3:2' }).getByRole('link').first().waitFor();
    await accessible(page, 'a build');
    await page.setViewportSize({ width: 390, height: 844 });
    await fits(page, 'a build on a phone');
    await page.setViewportSize({ width: 1280, height: 720 });
    done('a build is a grid of commands and labels, with the findings of its jobs');
}

async function longLines(scene, page, done) {
    const long = scene.submit('i=0; while [ $i -lt 3000 ]; do i=$((i+1)); printf "%d %0400d\\n" $i 0; done; echo end');
    await scene.until('the job ends', () => JSON.parse(scene.run(['job', long, '--json'])).state === 'done');
    await page.goto(`${scene.home}#/jobs/${long}`);
    await page.getByText('3,001 lines').waitFor();
    const sideways = () => page.locator('.log').evaluate((one) => one.scrollWidth > one.clientWidth);
    assert.ok(await sideways());
    await page.getByLabel('Wrap').check();
    await scene.until('no line is wider than the log', async () => !(await sideways()));
    await page.locator('.log').focus();
    await page.keyboard.press('G');
    const inside = (text) => page.locator('.line .text').getByText(text, { exact: true }).evaluate((one) => {
        const [line, log] = [one.getBoundingClientRect(), one.closest('.log').getBoundingClientRect()];
        return line.top >= log.top && line.bottom <= log.bottom + 1;
    });
    await scene.until('the last line shows', () => inside('end'));
    await page.goto(`${scene.home}#/jobs/${long}#L1500`);
    const selected = page.locator('.line.selected');
    await selected.filter({ hasText: /1500 0000/ }).waitFor();
    await scene.until('the selected line is in view', () => selected.evaluate((one) => {
        const [line, log] = [one.getBoundingClientRect(), one.closest('.log').getBoundingClientRect()];
        return line.top >= log.top && line.bottom <= log.bottom + 1;
    }));
    await page.getByRole('button', { name: 'Copy link to L1500' }).waitFor();
    await page.keyboard.press('w');
    await scene.until('lines are not wrapped', sideways);
    done('long lines wrap on request, and lines keep their place');
}

export async function details(scene, done) {
    const page = await scene.signedIn('submit');
    await elsewhere(scene, page, done);
    await history(scene, page, done);
    await crash(scene, page, done);
    await artifacts(scene, page, done);
    await builds(scene, page, done);
    await longLines(scene, page, done);
}
