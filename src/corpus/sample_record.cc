#include "corpus/sample_record.h"

#include <cstring>
#include <string>

#include "base/hash.h"

namespace longhaul::corpus {
namespace {

struct RecordHeader {
  char magic[4] = {'L', 'H', 'S', 'R'};
  uint32_t rank = 0;
  uint64_t attempt = 0;
  uint64_t step = 0;
  uint64_t count = 0;
};
static_assert(sizeof(RecordHeader) == 32);

}  // namespace

std::vector<std::byte> EncodeSampleRecord(const SampleRecord& record) {
  RecordHeader header;
  header.rank = record.rank;
  header.attempt = record.attempt;
  header.step = record.step;
  header.count = record.samples.size();
  const size_t body = sizeof(header) + 8 * record.samples.size();
  std::vector<std::byte> out(body + sizeof(uint64_t));
  std::memcpy(out.data(), &header, sizeof(header));
  if (!record.samples.empty()) {
    std::memcpy(out.data() + sizeof(header), record.samples.data(), body - sizeof(header));
  }
  const uint64_t hash = Hash64(out.data(), body);
  std::memcpy(out.data() + body, &hash, sizeof(hash));
  return out;
}

Result<std::vector<SampleRecord>> ParseSampleRecords(std::span<const std::byte> file) {
  std::vector<SampleRecord> records;
  size_t at = 0;
  while (file.size() - at >= sizeof(RecordHeader)) {
    RecordHeader header;
    std::memcpy(&header, file.data() + at, sizeof(header));
    const std::string where = " of the sample record at byte " + std::to_string(at);
    if (std::memcmp(header.magic, RecordHeader().magic, 4) != 0) {
      return DataLoss("wrong first bytes" + where);
    }
    const size_t rest = file.size() - at - sizeof(header);
    if (rest < 8 || header.count > (rest - 8) / 8) break;
    const size_t body = sizeof(header) + 8 * static_cast<size_t>(header.count);
    uint64_t hash = 0;
    std::memcpy(&hash, file.data() + at + body, sizeof(hash));
    if (hash != Hash64(file.data() + at, body)) return DataLoss("wrong hash" + where);
    SampleRecord record{header.attempt, header.step, header.rank, {}};
    record.samples.resize(header.count);
    if (header.count > 0)
      std::memcpy(record.samples.data(), file.data() + at + sizeof(header), body - sizeof(header));
    records.push_back(std::move(record));
    at += body + sizeof(hash);
  }
  return records;
}

}  // namespace longhaul::corpus
