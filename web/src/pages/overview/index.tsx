import { Page } from '../../components/Page';
import { Empty } from '../../components/States';

export default function Overview() {
  return (
    <Page title="Overview">
      <Empty title="This page is not there yet" icon="overview" />
    </Page>
  );
}
