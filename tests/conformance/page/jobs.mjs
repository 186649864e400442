// Jobs, from the list to their end: filters, reasons, changes, builds, keys.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, fits } from './scene.mjs';

const MARKUP = '<img src=x onerror=window.hacked=1>';

export async function jobs(scene, done) {
    const failed = scene.result(`echo "${MARKUP}"; echo "src/a.c:3:2: error: ${MARKUP}"; exit 1`, 1);
    const page = await scene.signedIn('submit');
    await page.getByRole('link', { name: MARKUP }).click();
    await page.getByText(failed.cause.text).waitFor();
    const shown = await page.locator('.finding.bad').first().innerText();
    assert.ok(shown.includes('src/a.c:3:2') && shown.includes(MARKUP), shown);
    await page.locator('.log').getByText(MARKUP, { exact: true }).waitFor();
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator('img').count(), 0);
    assert.match(await page.title(), /^failed: .* · buildpool$/);
    done('a list leads to a job, whose words are text');

    await page.getByRole('button', { name: 'Line 2 of the log' }).click();
    await page.locator('.line.selected').filter({ hasText: 'src/a.c:3:2' }).waitFor();
    assert.match(page.url(), /#L2$/);
    await page.locator('.line.has-finding').getByRole('button', { name: 'Show the finding' }).click();
    await page.locator('.finding.bad').first().waitFor();
    done('a finding and its line lead to each other');

    await page.getByRole('tab', { name: "Agent's view" }).click();
    await page.locator('.agent').filter({ hasText: failed.job_id }).waitFor();
    await page.getByLabel('Verbosity').selectOption('full');
    await page.locator('.agent').filter({ hasText: '"stdout"' }).waitFor();
    done("the agent's view is the result at each verbosity");

    const go = join(scene.place, 'go');
    const waits = scene.submit(`while [ ! -e ${go} ]; do sleep 0.1; done; echo ended`);
    await page.goto(`${scene.home}#/jobs`);
    const row = page.getByRole('row').filter({ hasText: 'echo ended' });
    await row.getByText('running').waitFor();
    const link = row.getByRole('link').first();
    await link.focus();
    writeFileSync(go, '');
    await row.getByText('passed').waitFor();
    assert.ok(await link.evaluate((one) => one === document.activeElement), 'the focus stays');
    done('a list follows its jobs without a new drawing');

    await page.getByLabel('verdict').selectOption('failed');
    await page.waitForURL(/verdict=failed/);
    await row.waitFor({ state: 'detached' });
    await page.getByLabel('Command contains').fill('src/a.c');
    await page.keyboard.press('Enter');
    await page.waitForURL(/command=src%2Fa.c/);
    const filtered = page.url();
    await page.goto(scene.home);
    await page.goto(filtered);
    await page.getByRole('link', { name: MARKUP }).waitFor();
    await scene.until('one job is listed', async () => (await page.locator('tbody tr').count()) === 1);
    done('the address holds the filter');

    await page.goto(`${scene.home}#/jobs/${waits}`);
    await page.getByRole('button', { name: 'Retry', exact: true }).click();
    await page.waitForURL((url) => url.hash.startsWith('#/jobs/') && !url.hash.includes(waits));
    await page.locator('.verdict').getByText('passed').waitFor();
    const sleeps = scene.submit('exec sleep 600');
    await page.goto(`${scene.home}#/jobs/${sleeps}`);
    page.once('dialog', (dialog) => dialog.accept());
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.locator('.verdict').getByText('cancelled').waitFor();
    const reader = await scene.signedIn('read');
    await reader.goto(`${scene.home}#/jobs/${sleeps}`);
    await reader.locator('.verdict').getByText('cancelled').waitFor();
    assert.equal(await reader.getByRole('button', { name: 'Retry' }).count(), 0);
    done('a job is cancelled and retried by tokens that may');

    const build = JSON.parse(scene.run(['run', '--no-snapshot', '--several', '--output', 'json', '--', 'true', ':::', 'false'], { code: 1 }));
    assert.ok(build.build.url.startsWith(`${scene.home}#/builds/build-`), build.build.url);
    await page.goto(build.build.url);
    await page.getByText('1 passed, 1 ended otherwise, 0 not over').waitFor();
    await page.goto(`${scene.home}#/builds/build-01a204df-0000-7000-8000-000000000000`);
    await page.getByRole('alert').filter({ hasText: 'no job of build-01a204df' }).waitFor();
    done("a build's address leads to its jobs, and that of none says so");

    await page.goto(`${scene.home}#/jobs`);
    await page.locator('tbody tr').nth(2).waitFor();
    await page.locator('main').focus();
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('k');
    const first = await page.locator('[data-row]').first().getAttribute('href');
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('href')), first);
    await page.keyboard.press('/');
    assert.equal(await page.evaluate(() => document.activeElement.name), 'command');
    await page.locator('main').focus();
    await page.keyboard.press('?');
    await page.getByRole('heading', { name: 'Keys' }).waitFor();
    await accessible(page, 'the help');
    await page.keyboard.press('Escape');
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.waitForURL(/#\/jobs\/[0-9a-f]/);
    done('keys move, search, open and help');

    const admin = await scene.signedIn('admin', { viewport: { width: 390, height: 844 } });
    for (const address of ['#/', '#/jobs', `#/jobs/${failed.job_id}`, `#/builds/${build.request_id}`, '#/workers', '#/workers/w1', '#/tests', '#/admin']) {
        for (const colorScheme of ['light', 'dark']) {
            await admin.emulateMedia({ colorScheme });
            await admin.goto(`${scene.home}${address}`);
            await admin.locator('h1').first().waitFor();
            await admin.locator('main').locator('table, dl, .empty, .cells, .notice').first().waitFor();
            await accessible(admin, `${address} ${colorScheme}`);
        }
        await fits(admin, address);
    }
    done('no view is wider than a phone, and axe finds no violation in any, light and dark');
}
