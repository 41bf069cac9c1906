import { Page } from '../../components/Page';
import { Empty } from '../../components/States';

export default function Queues() {
  return (
    <Page title="Queues">
      <Empty title="This page is not there yet" icon="queues" />
    </Page>
  );
}
