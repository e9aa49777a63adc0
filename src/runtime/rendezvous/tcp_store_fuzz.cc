// Any bytes on any of three connections: nothing crashes, and all memory is given back.
//
// The input is a sequence of chunks: a byte that names the connection (modulo 3) and whether to
// close it first, a byte with the chunk's length, the chunk.
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/check.h"
#include "runtime/rendezvous/tcp_store.h"

using longhaul::Bytes;
using longhaul::runtime::StoreDialect;
using longhaul::runtime::TcpStore;

namespace {

constexpr size_t kConnections = 3;
constexpr longhaul::runtime::StoreLimits kLimits{Bytes(1 << 20), Bytes(1 << 16)};

void Run(StoreDialect dialect, std::span<const std::byte> input) {
  TcpStore store(dialect, kLimits);
  std::optional<TcpStore::ConnectionId> open[kConnections];
  while (input.size() >= 2) {
    const auto control = static_cast<uint8_t>(input[0]);
    const size_t bytes = std::min<size_t>(static_cast<size_t>(input[1]), input.size() - 2);
    auto& connection = open[control % kConnections];
    if ((control & 0x80) != 0 && connection.has_value()) {
      store.Close(*connection);
      connection.reset();
    }
    if (!connection.has_value()) connection = store.Open();
    if (!store.Receive(*connection, input.subspan(2, bytes)).ok()) {
      store.Close(*connection);
      connection.reset();
    }
    CHECK(store.memory() <= kLimits.memory + Bytes(kConnections));
    input = input.subspan(2 + bytes);
  }
  while (!store.with_output().empty()) {
    const TcpStore::ConnectionId id = *store.with_output().begin();
    store.Consume(id, store.Output(id).size());
  }
  for (auto& connection : open) {
    if (connection.has_value()) store.Close(*connection);
  }
  CHECK(store.connections() == 0);
  CHECK(store.keys() > 0 || store.memory() == Bytes(0));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  for (const StoreDialect dialect :
       {StoreDialect::kTorch1, StoreDialect::kTorch21, StoreDialect::kTorch2}) {
    Run(dialect, input);
  }
  return 0;
}
