#include "frontend/tensorboard/tensorboard_records.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <isa-l.h>

#include <bit>

namespace longhaul::frontend {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

// A message that is written field by field.
class MessageText {
 public:
  void AddDouble(int field, double value) {
    Write([&](CodedOutputStream& out) { WireFormatLite::WriteDouble(field, value, &out); });
  }
  void AddFloat(int field, float value) {
    Write([&](CodedOutputStream& out) { WireFormatLite::WriteFloat(field, value, &out); });
  }
  void AddInteger(int field, uint64_t value) {
    Write([&](CodedOutputStream& out) { WireFormatLite::WriteUInt64(field, value, &out); });
  }
  void AddBytes(int field, std::string_view value) {
    Write([&](CodedOutputStream& out) {
      WireFormatLite::WriteBytes(field, std::string(value), &out);
    });
  }
  const std::string& text() const { return text_; }

 private:
  template <typename Writer>
  void Write(Writer writer) {
    StringOutputStream stream(&text_);
    CodedOutputStream out(&stream);
    writer(out);
  }

  std::string text_;
};

void AppendLittleEndian(uint64_t value, int bytes, std::string& to) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> 8 * i & 0xff);
}

uint32_t MaskedChecksum(std::string text) {
  // ISA-L's function neither inverts the initial value nor the result.
  const uint32_t crc = ~crc32_iscsi(reinterpret_cast<unsigned char*>(text.data()),
                                    static_cast<int>(text.size()), ~0U);
  return std::rotr(crc, 15) + 0xa282ead8U;
}

std::string Record(const MessageText& message) {
  std::string length;
  AppendLittleEndian(message.text().size(), 8, length);
  std::string record = length;
  AppendLittleEndian(MaskedChecksum(length), 4, record);
  record += message.text();
  AppendLittleEndian(MaskedChecksum(message.text()), 4, record);
  return record;
}

MessageText EventAt(Instant at) {
  MessageText event;
  event.AddDouble(1, ToSeconds(at - Instant{}));
  return event;
}

}  // namespace

std::string VersionRecord(Instant at) {
  MessageText event = EventAt(at);
  event.AddBytes(3, "brain.Event:2");
  return Record(event);
}

std::string RestartRecord(Instant at, uint64_t step) {
  constexpr uint64_t kStart = 1;
  MessageText event = EventAt(at);
  event.AddInteger(2, step);
  MessageText session;
  session.AddInteger(1, kStart);
  event.AddBytes(7, session.text());
  return Record(event);
}

std::string ScalarsRecord(Instant at, uint64_t step, const Scalars& scalars) {
  MessageText event = EventAt(at);
  event.AddInteger(2, step);
  MessageText summary;
  for (const auto& [tag, value] : scalars) {
    MessageText scalar;
    scalar.AddBytes(1, tag);
    scalar.AddFloat(2, static_cast<float>(value));
    summary.AddBytes(1, scalar.text());
  }
  event.AddBytes(5, summary.text());
  return Record(event);
}

}  // namespace longhaul::frontend
