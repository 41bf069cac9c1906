import { Page } from '../../components/Page';
import { Empty } from '../../components/States';

export default function Reports() {
  return (
    <Page title="Reports">
      <Empty title="This page is not there yet" icon="reports" />
    </Page>
  );
}
