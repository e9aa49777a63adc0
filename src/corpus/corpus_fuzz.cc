// The token file, the sample records and the globs: the first byte chooses which.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "corpus/glob.h"
#include "corpus/sample_record.h"
#include "corpus/token_file.h"

namespace longhaul::corpus {
namespace {

void FuzzTokens(std::span<const std::byte> bytes) {
  std::vector<uint16_t> aligned(bytes.size() / 2 + 1);
  if (!bytes.empty()) std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const auto tokens = ParseTokens(std::as_bytes(std::span(aligned)).first(bytes.size()));
  if (tokens.ok()) CHECK(tokens->size() * 2 + kTokenHeaderBytes == bytes.size());
}

void FuzzRecords(std::span<const std::byte> bytes) {
  const auto records = ParseSampleRecords(bytes);
  if (!records.ok()) return;
  std::vector<std::byte> again;
  for (const SampleRecord& record : *records) {
    const auto encoded = EncodeSampleRecord(record);
    again.insert(again.end(), encoded.begin(), encoded.end());
  }
  CHECK(again.size() <= bytes.size());
  CHECK(again.empty() || std::memcmp(again.data(), bytes.data(), again.size()) == 0);
}

void FuzzGlob(std::string_view text) {
  const size_t line = text.find('\n');
  const std::string_view pattern = text.substr(0, line);
  const std::string_view path = line == std::string_view::npos ? "" : text.substr(line + 1);
  (void)MatchGlob(pattern, path);
  CHECK(MatchGlob("**", path));
  if (IsLiteral(pattern)) {
    for (const std::string_view part : Components(pattern)) {
      CHECK(MatchComponent(part, Unescape(part)));
    }
  }
}

}  // namespace
}  // namespace longhaul::corpus

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  if (data[0] == 't') longhaul::corpus::FuzzTokens(rest);
  if (data[0] == 'r') longhaul::corpus::FuzzRecords(rest);
  if (data[0] == 'g') {
    longhaul::corpus::FuzzGlob({reinterpret_cast<const char*>(rest.data()), rest.size()});
  }
  return 0;
}
