import { Page } from '../../components/Page';
import { Empty } from '../../components/States';

export default function Timeline() {
  return (
    <Page title="Timeline">
      <Empty title="This page is not there yet" icon="timeline" />
    </Page>
  );
}
