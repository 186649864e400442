// The log: growth, a million lines, search, groups, colours, links to lines.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const texts = (page) => page.locator('.line .text').allInnerTexts();
const status = (page) => page.locator('.output [role="status"]');

export async function log(scene, done) {
    const page = await scene.signedIn('submit');
    const go = join(scene.place, 'go');
    const running = scene.submit(`echo begun; while [ ! -e ${go} ]; do sleep 0.1; done; seq 20000; echo ended`);
    await page.goto(`${scene.home}#/jobs/${running}`);
    await page.locator('.line').filter({ hasText: 'begun' }).waitFor();
    assert.ok(await page.getByLabel('Follow').isChecked());
    writeFileSync(go, '');
    await page.locator('.line').filter({ hasText: 'ended' }).waitFor();
    await page.getByText('20,002 lines').waitFor();
    await page.locator('.log').focus();
    await page.keyboard.press('g');
    await page.locator('.line').filter({ hasText: 'begun' }).waitFor();
    const first = (await texts(page)).slice(0, 4);
    assert.deepEqual(first, ['begun', '1', '2', '3']);
    done('a log is followed as its job writes, and is there from its beginning');

    const big = scene.submit('seq 1000000');
    await scene.until('the job ends', () => JSON.parse(scene.run(['job', big, '--json'])).state === 'done');
    const begun = Date.now();
    await page.goto(`${scene.home}#/jobs/${big}`);
    await page.locator('.line').filter({ hasText: /^1\s*1$/ }).first().waitFor();
    const took = Date.now() - begun;
    await page.getByText('1,000,000 lines').waitFor();
    await page.keyboard.press('G');
    await page.locator('.line .text').getByText('1000000', { exact: true }).waitFor();
    assert.ok((await page.locator('.line').count()) < 200, 'only the lines in view are elements');
    await page.goto(`${scene.home}#/jobs/${big}#L500000-L500002`);
    await page.locator('.line.selected .text').getByText('500002', { exact: true }).waitFor();
    assert.deepEqual(await page.locator('.line.selected .text').allInnerTexts(), ['500000', '500001', '500002']);
    const heap = await page.evaluate(() => performance.memory.usedJSHeapSize);
    assert.ok(heap < 60_000_000, `${heap} bytes`);
    done(`a log of a million lines shows its first line after ${took} ms, with ${Math.round(heap / 1_000_000)} MB`);

    await page.getByLabel('Search the log').fill('99999');
    await status(page).getByText('1 of 19 lines').waitFor();
    await page.locator('.line.current').filter({ hasText: '99999' }).waitFor();
    await page.keyboard.press('Enter');
    await status(page).getByText('2 of 19 lines').waitFor();
    await page.locator('.line.current').filter({ hasText: '199999' }).waitFor();
    await page.keyboard.press('Shift+Enter');
    await status(page).getByText('1 of 19 lines').waitFor();
    await page.getByLabel('Search the log').fill('/^12345.$/');
    await status(page).getByText('1 of 10 lines').waitFor();
    await page.getByLabel('Search the log').fill('/(/');
    await page.getByRole('alert').filter({ hasText: 'not a valid pattern' }).waitFor();
    done('a search counts all matches and leads to each');

    const text = "printf '\\033[31mred\\033[0m plain\\n'; echo '::group::Install'; seq 50; echo '::endgroup::'; printf '10%%\\r20%%\\r100%%\\n'; "
        + "printf 'evil \\342\\200\\256 text\\007\\n'; echo '</pre><script>window.hacked=1</script>'; sleep 0.3; echo late >&2";
    const coloured = scene.result(text);
    await page.goto(`${scene.home}#/jobs/${coloured.job_id}`);
    await page.locator('.line .fg-1').getByText('red', { exact: true }).waitFor();
    await page.locator('.line.stderr').filter({ hasText: 'late' }).or(page.locator('.fold')).first().waitFor();
    await page.getByRole('button', { name: 'Close all groups' }).click();
    await page.locator('.line').filter({ hasText: 'Install 51 lines' }).waitFor();
    const all = await texts(page);
    assert.deepEqual(all.slice(2), ['100%', 'evil \\u{202e} text\\u{7}', '</pre><script>window.hacked=1</script>', 'late']);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    await page.locator('.line.stderr').filter({ hasText: 'late' }).waitFor();
    await page.getByLabel('Times').check();
    await page.locator('.line .at').filter({ hasText: /^\d\d:\d\d:\d\d$/ }).first().waitFor();
    done('colours, groups, progress, streams and times show; hidden characters are visible and markup is text');

    await page.locator('.line .number').filter({ hasText: /^1$/ }).click();
    await page.locator('.line .number').filter({ hasText: /^56$/ }).click({ modifiers: ['Shift'] });
    assert.match(page.url(), /#L1-L56$/);
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download' }).click();
    assert.equal((await download).suggestedFilename(), `${coloured.job_id}.log`);
    done('lines have links, and the log can be downloaded');

    const twice = join(scene.place, 'twice');
    const attempts = `echo "attempt $BUILDPOOL_ATTEMPT"; while [ ! -e ${twice}$BUILDPOOL_ATTEMPT ]; do sleep 0.1; done; echo "No space left on device" >&2; exit 1`;
    const retried = scene.submit(attempts, '--retries', '1');
    await page.goto(`${scene.home}#/jobs/${retried}`);
    for (const attempt of [1, 2]) {
        await page.locator('.line').filter({ hasText: `attempt ${attempt}` }).waitFor();
        writeFileSync(`${twice}${attempt}`, '');
    }
    await page.locator('.verdict').getByText('failed').waitFor();
    await page.locator('.line').filter({ hasText: 'No space left' }).waitFor();
    assert.deepEqual(await texts(page), ['attempt 2', 'No space left on device']);
    await page.getByRole('link', { name: 'Attempt 1' }).click();
    await page.locator('.line').filter({ hasText: 'attempt 1' }).waitFor();
    done('another attempt has another log, and the earlier one is there');
}
