#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "checkpoint/internal/text_forms.h"

namespace longhaul::checkpoint {
namespace {

using internal::Quoted;

constexpr uint64_t kDataAlignment = 4096;

struct Entry {
  TensorInfo tensor;
  std::vector<uint64_t> data_offsets;
};

// Takes the header's JSON as events, so that duplicate keys are seen and nothing deep is built. A
// handler that returns false stops the parser; `error` says why.
class HeaderHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<Entry> entries;
  TextMap metadata;
  std::string error;

  bool null() override { return Refuse("null"); }
  bool boolean(bool) override { return Refuse("a boolean"); }
  bool number_integer(number_integer_t) override { return Refuse("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return Refuse("a fraction"); }
  bool binary(binary_t&) override { return Refuse("binary"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kArray) return Refuse("a number");
    if (field_ == "shape") {
      if (value > kMaxStateBytes) return Fail("a dimension is larger than 64 TiB");
      if (entries.back().tensor.shape.size() == kMaxDims) return Fail("more than 8 dimensions");
      entries.back().tensor.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (entries.back().data_offsets.size() == 2) return Fail("data_offsets are more than two");
    entries.back().data_offsets.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      metadata[field_] = value;
      return true;
    }
    if (place_ != Place::kTensor || field_ != "dtype") return Refuse("a text");
    entries.back().tensor.dtype = value;
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::kOutside) {
      place_ = Place::kTop;
      return true;
    }
    if (place_ != Place::kTop) return Refuse("an object");
    fields_.clear();
    if (name_ == "__metadata__") {
      place_ = Place::kMetadata;
      return true;
    }
    if (entries.size() == kMaxTensors) return Fail("too many tensors");
    place_ = Place::kTensor;
    entries.emplace_back().tensor.name = name_;
    return true;
  }

  // A duplicate name would make two programs read different tensors from one file, so it is
  // refused.
  bool key(string_t& value) override {
    if (place_ == Place::kTop) {
      name_ = value;
      return names_.insert(value).second || Fail("the name " + Printable(value) + " comes twice");
    }
    field_ = value;
    if (!fields_.insert(value).second) return Fail("the key " + Printable(value) + " comes twice");
    if (place_ == Place::kMetadata) return true;
    return value == "dtype" || value == "shape" || value == "data_offsets" ||
           Fail("unknown key " + Printable(value) + " of " + Printable(name_));
  }

  bool end_object() override {
    if (place_ == Place::kTop) {
      place_ = Place::kDone;
      return true;
    }
    if (place_ == Place::kTensor &&
        (fields_.size() != 3 || entries.back().data_offsets.size() != 2)) {
      return Fail("the entry of " + Printable(name_) + " is incomplete");
    }
    place_ = Place::kTop;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kTensor || field_ == "dtype") return Refuse("an array");
    place_ = Place::kArray;
    return true;
  }
  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Fail("not JSON at byte " + std::to_string(position));
  }

 private:
  enum class Place { kOutside, kTop, kMetadata, kTensor, kArray, kDone };

  bool Fail(std::string reason) {
    if (error.empty()) error = std::move(reason);
    return false;
  }
  bool Refuse(const std::string& what) {
    return Fail(what + " where none may be, near " + Printable(name_));
  }

  Place place_ = Place::kOutside;
  std::string name_;
  std::string field_;
  std::set<std::string> names_;
  std::set<std::string> fields_;
};

// The tensors in the order of their data, checked to lie without holes from 0 to `data_bytes`.
Result<SafetensorsHeader> Arrange(HeaderHandler& handler, uint64_t data_at, uint64_t data_bytes) {
  std::vector<Entry>& entries = handler.entries;
  // Stable: tensors of no bytes share an offset, and keep the order in which they are named.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.data_offsets < b.data_offsets; });
  SafetensorsHeader header;
  std::vector<TensorInfo> tensors;
  uint64_t at = 0;
  for (Entry& entry : entries) {
    const std::string what = "the data of " + Printable(entry.tensor.name) + " ";
    const uint64_t begin = entry.data_offsets[0];
    const uint64_t end = entry.data_offsets[1];
    // The format allows neither: a hole could hide data, and overlapping tensors would share bytes.
    if (begin != at) return DataLoss(what + "leaves a hole or overlaps");
    if (end < begin || end > data_bytes) return DataLoss(what + "lies outside of the file");
    header.offsets.push_back(data_at + begin);
    at = end;
    tensors.push_back(std::move(entry.tensor));
  }
  if (at != data_bytes) return DataLoss("the file has bytes that belong to no tensor");
  Result<StatePlan> plan = StatePlan::Create(std::move(tensors));
  if (!plan.ok()) return DataLoss(plan.status().message());
  header.plan = std::move(plan).value();
  for (size_t i = 0; i < header.plan.size(); ++i) {
    const uint64_t next = i + 1 < header.plan.size() ? header.offsets[i + 1] : data_at + data_bytes;
    if (next - header.offsets[i] != header.plan.bytes(i)) {
      return DataLoss("the data of " + Printable(header.plan.tensors()[i].name) + " has " +
                      std::to_string(next - header.offsets[i]) + " bytes, its shape and dtype " +
                      std::to_string(header.plan.bytes(i)));
    }
  }
  header.metadata = std::move(handler.metadata);
  return header;
}

}  // namespace

Result<std::string> EncodeSafetensorsHeader(const StatePlan& plan, const TextMap& metadata) {
  std::vector<std::string> parts;
  std::vector<std::string> texts;
  for (const auto& [key, value] : metadata) texts.push_back(Quoted(key) + ":" + Quoted(value));
  if (!texts.empty()) parts.push_back("\"__metadata__\":{" + Join(texts, ",") + "}");
  uint64_t at = 0;
  for (size_t i = 0; i < plan.size(); ++i) {
    const TensorInfo& tensor = plan.tensors()[i];
    std::vector<std::string> extents;
    for (const int64_t extent : tensor.shape) extents.push_back(std::to_string(extent));
    const uint64_t end = at + plan.bytes(i);
    parts.push_back(Quoted(tensor.name) + ":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[" +
                    Join(extents, ",") + "],\"data_offsets\":[" + std::to_string(at) + "," +
                    std::to_string(end) + "]}");
    at = end;
  }
  std::string json = "{" + Join(parts, ",") + "}";
  const uint64_t unpadded = sizeof(uint64_t) + json.size();
  // The data begins at a page, so that programs that map the file get aligned tensors, and direct
  // I/O is possible.
  json.append((kDataAlignment - unpadded % kDataAlignment) % kDataAlignment, ' ');
  if (json.size() > kMaxSafetensorsHeader) {
    return ResourceExhausted("the header of " + std::to_string(plan.size()) +
                             " tensors is longer than the format's 100 MB");
  }
  const uint64_t length = json.size();
  std::string header(reinterpret_cast<const char*>(&length), sizeof(length));
  return header + json;
}

Result<uint64_t> SafetensorsHeaderBytes(std::span<const std::byte> first_eight,
                                        uint64_t file_bytes) {
  uint64_t length = 0;
  if (file_bytes < sizeof(length) || first_eight.size() < sizeof(length)) {
    return DataLoss("the file is too short for a header");
  }
  std::memcpy(&length, first_eight.data(), sizeof(length));
  if (length > kMaxSafetensorsHeader) {
    return DataLoss("it says that its header has " + std::to_string(length) + " bytes, at most " +
                    std::to_string(kMaxSafetensorsHeader) + " can be: it is no safetensors file");
  }
  // Subtracted and not added: `length` comes from the file, and the sum could overflow.
  if (length > file_bytes - sizeof(length)) {
    return DataLoss("it says that its header has " + std::to_string(length) +
                    " bytes, and the file has " + std::to_string(file_bytes) +
                    ": it was cut short, or is no safetensors file");
  }
  return sizeof(length) + length;
}

Result<SafetensorsHeader> ParseSafetensorsHeader(std::span<const std::byte> header,
                                                 uint64_t file_bytes) {
  ASSIGN_OR_RETURN(const uint64_t data_at, SafetensorsHeaderBytes(header, file_bytes));
  if (header.size() != data_at) return DataLoss("the header is cut short");
  const std::string_view text(reinterpret_cast<const char*>(header.data()) + sizeof(uint64_t),
                              header.size() - sizeof(uint64_t));
  // Other white space than padding, before or behind, is not in the format.
  const size_t last = text.find_last_not_of(' ');
  if (text.empty() || text.front() != '{' || text[last] != '}') {
    return DataLoss("the header is not one JSON object");
  }
  HeaderHandler handler;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &handler)) {
    return DataLoss("bad header: " + handler.error);
  }
  return Arrange(handler, data_at, file_bytes - data_at);
}

Result<SafetensorsHeader> ParseSafetensors(std::span<const std::byte> file) {
  ASSIGN_OR_RETURN(const uint64_t data_at, SafetensorsHeaderBytes(file, file.size()));
  return ParseSafetensorsHeader(file.first(data_at), file.size());
}

}  // namespace longhaul::checkpoint
