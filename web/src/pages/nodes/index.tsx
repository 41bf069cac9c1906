import { Page } from '../../components/Page';
import { Empty } from '../../components/States';

export default function Nodes() {
  return (
    <Page title="Nodes">
      <Empty title="This page is not there yet" icon="nodes" />
    </Page>
  );
}
