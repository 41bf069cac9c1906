import { Page } from '../../components/Page';
import { Empty } from '../../components/States';
import type { PageProps } from '../../router';

export default function NodePage({ params }: PageProps<'/nodes/:node_id'>) {
  return (
    <Page title={`Node ${params.node_id}`}>
      <Empty title="This page is not there yet" icon="nodes" />
    </Page>
  );
}
