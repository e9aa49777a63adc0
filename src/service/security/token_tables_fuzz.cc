// Any text gives a table of tokens, of join tokens, or a message; a table is read back from its own
// text; and no text is a valid secret by accident.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/text.h"
#include "service/security/join_store.h"
#include "service/security/join_table.h"
#include "service/security/token_table.h"

namespace longhaul::service {
namespace {

constexpr Instant kNow = InstantFromNanoseconds(1'700'000'000'000'000'000);

// What a table writes is what it was read from, once normalised.
template <typename Table>
void CheckTable(const std::string& text) {
  const Result<Table> table = Table::Parse(text);
  if (!table.ok()) {
    CHECK(!table.status().message().empty());
    return;
  }
  CHECK(table->tokens().size() <= Table::kMostTokens) << table->tokens().size();
  const std::string written = table->Text();
  const Result<Table> again = Table::Parse(written);
  CHECK(again.ok()) << again.status() << "\n" << written;
  CHECK(again->Text() == written) << written;
}

}  // namespace
}  // namespace longhaul::service

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::service;
  const std::string text(reinterpret_cast<const char*>(data), size);
  CheckTable<TokenTable>(text);
  CheckTable<JoinTable>(text);
  if (const auto tokens = TokenTable::Parse(text); tokens.ok()) {
    CHECK(!tokens->Identify(text, kNow).ok());
  }
  if (auto joins = JoinTable::Parse(text); joins.ok()) {
    CHECK(!joins->Use(text, "node-1", kNow).ok());
  }
  if (const auto join = ParseJoinToken(text); join.ok()) {
    CHECK(join->secret + "." + join->fingerprint == longhaul::Trim(text)) << text;
  }
  return 0;
}
