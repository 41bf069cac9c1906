import { Page } from '../../components/Page';
import { Empty } from '../../components/States';

export default function Admin() {
  return (
    <Page title="Admin">
      <Empty title="This page is not there yet" icon="admin" />
    </Page>
  );
}
