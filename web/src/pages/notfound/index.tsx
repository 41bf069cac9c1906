import { ButtonLink } from '../../components/Button';
import { Page } from '../../components/Page';
import { Empty } from '../../components/States';
import { href, path } from '../../router';

export default function NotFound() {
  return (
    <Page title="Not found">
      <Empty title="There is no such page" icon="search" action={<ButtonLink href={href('/')}>Go to the overview</ButtonLink>}>
        The dashboard has nothing at <code>{path.value}</code>.
      </Empty>
    </Page>
  );
}
