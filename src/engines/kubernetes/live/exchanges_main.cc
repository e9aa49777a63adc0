// Prints the transcript of the exchanges with a real API server: kubernetes_exchanges KUBECONFIG
//
// With a further argument such as /version it sends one GET instead and prints the body.
#include <cstdio>
#include <string>

#include "engines/kubernetes/client/client.h"
#include "engines/kubernetes/double/conversation.h"
#include "engines/kubernetes/double/exchanges.h"

using namespace longhaul;
using namespace longhaul::engines::kubernetes;

namespace {

Result<std::string> Run(const std::string& kubeconfig, const std::string& target) {
  ASSIGN_OR_RETURN(const std::unique_ptr<io::EventLoop> loop, io::EventLoop::Create());
  ASSIGN_OR_RETURN(Access access, KubeconfigAccess(*loop, kubeconfig, ""));
  ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                   Client::Create(*loop, std::move(access), {}));
  if (target.empty()) return RunExchanges(*loop, *client);
  Conversation with(*loop, *client);
  const Reply reply = with.Quietly(RawGet(target));
  if (!reply.ok()) return reply.verdict.status;
  return reply.body + "\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: kubernetes_exchanges KUBECONFIG [TARGET]\n");
    return 2;
  }
  const Result<std::string> transcript = Run(argv[1], argc == 3 ? argv[2] : "");
  if (!transcript.ok()) {
    std::fprintf(stderr, "kubernetes_exchanges: %s\n", ToString(transcript.status()).c_str());
    return 1;
  }
  std::fputs(transcript->c_str(), stdout);
  return 0;
}
