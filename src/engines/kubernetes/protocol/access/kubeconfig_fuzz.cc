// Any bytes as a kubeconfig: what is accepted is safe to use, and refusals name the file.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "engines/kubernetes/protocol/access/kubeconfig.h"

using namespace longhaul;
using namespace longhaul::engines::kubernetes;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Kubeconfig> config = ParseKubeconfig(text, "/folder/config", "");
  if (!config.ok()) {
    CHECK(config.status().message().starts_with("/folder/config"));
    return 0;
  }
  CHECK(config->server.starts_with("https://") || config->server.starts_with("http://"));
  CHECK(config->client_certificate.empty() == config->client_key.empty());
  CHECK(config->token.find_first_of("\r\n") == config->token.npos);
  for (const std::string* const path :
       {&config->token_file, &config->client_key.path, &config->certificate_authority.path}) {
    CHECK(path->empty() || path->front() == '/');
  }
  return 0;
}
