#include "checkpoint/formats/zip.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::checkpoint {
namespace {

constexpr uint32_t kLocalMagic = 0x04034b50;
constexpr uint32_t kEntryMagic = 0x02014b50;
constexpr uint32_t kEndMagic = 0x06054b50;
constexpr uint32_t kEnd64Magic = 0x06064b50;
constexpr uint32_t kLocator64Magic = 0x07064b50;
constexpr uint64_t kLocalBytes = 30;
constexpr uint64_t kEntryBytes = 46;
constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kEnd64Bytes = 56;
constexpr uint64_t kLocator64Bytes = 20;
constexpr uint32_t kNarrowMax = std::numeric_limits<uint32_t>::max();
constexpr uint16_t kExtra64 = 1;        // the extra field with sizes beyond 4 GiB
constexpr uint16_t kExtraPad = 0x4246;  // "FB", the one PyTorch pads with
constexpr uint64_t kAlignment = 64;
constexpr uint64_t kMaxDirectoryBytes = 512 << 20;
constexpr uint16_t kUtf8Flag = 1 << 11;
constexpr uint16_t kEncryptedFlag = 1;

template <typename T>
T Take(const std::byte* from) {
  T value{};
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T>
void Put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

struct Directory {
  uint64_t at = 0;  // from the archive's start
  uint64_t bytes = 0;
  uint64_t entries = 0;
};

// Reads stored entries only, as torch.save writes them. Every offset and size in the archive is
// untrusted and compared with the archive's bounds before it is used.
class ZipReader {
 public:
  ZipReader(const io::ReadableFile& file, uint64_t begin, uint64_t bytes)
      : file_(file), begin_(begin), bytes_(bytes) {}

  Result<std::vector<ZipEntry>> Read() {
    ASSIGN_OR_RETURN(const Directory directory, FindDirectory());
    if (directory.at > bytes_ || directory.bytes > bytes_ - directory.at) {
      return DataLoss("the ZIP directory lies outside of the archive");
    }
    if (directory.bytes > kMaxDirectoryBytes) {
      return ResourceExhausted("a ZIP directory of " + std::to_string(directory.bytes) +
                               " bytes is longer than the limit of 512 MiB");
    }
    ASSIGN_OR_RETURN(const auto bytes, Fetch(directory.at, directory.bytes));
    std::vector<ZipEntry> entries;
    std::unordered_set<std::string> names;
    uint64_t at = 0;
    while (at < bytes.size()) {
      ASSIGN_OR_RETURN(ZipEntry entry, ReadEntry(bytes, at, directory.at));
      // Which of two entries of one name counts would depend on the reader.
      if (!names.insert(entry.name).second) {
        return DataLoss("the ZIP entry " + Printable(entry.name) + " is there twice");
      }
      entries.push_back(std::move(entry));
    }
    if (entries.size() != directory.entries) {
      return DataLoss("the ZIP directory has " + std::to_string(entries.size()) + " entries, not " +
                      std::to_string(directory.entries));
    }
    std::sort(entries.begin(), entries.end(),
              [](const ZipEntry& a, const ZipEntry& b) { return a.name < b.name; });
    return entries;
  }

 private:
  Result<std::vector<std::byte>> Fetch(uint64_t at, uint64_t bytes) {
    std::vector<std::byte> content(bytes);
    RETURN_IF_ERROR(file_.Read(begin_ + at, content));
    return content;
  }

  // The end record is the archive's last: a comment behind it isn't taken.
  Result<Directory> FindDirectory() {
    if (bytes_ < kEndBytes) return DataLoss("too short for a ZIP archive");
    ASSIGN_OR_RETURN(const auto end, Fetch(bytes_ - kEndBytes, kEndBytes));
    if (Take<uint32_t>(end.data()) != kEndMagic || Take<uint16_t>(end.data() + 20) != 0) {
      return DataLoss("no end of a ZIP archive: cut, or another kind of file");
    }
    if (Take<uint16_t>(end.data() + 4) != 0 && Take<uint16_t>(end.data() + 4) != 0xFFFF) {
      return DataLoss("a ZIP archive of several disks");
    }
    Directory directory;
    directory.entries = Take<uint16_t>(end.data() + 10);
    directory.bytes = Take<uint32_t>(end.data() + 12);
    directory.at = Take<uint32_t>(end.data() + 16);
    // The locator of ZIP64, if there is one, lies directly before the end record. The numbers of
    // its record replace those above.
    if (bytes_ < kEndBytes + kLocator64Bytes) return directory;
    ASSIGN_OR_RETURN(const auto locator,
                     Fetch(bytes_ - kEndBytes - kLocator64Bytes, kLocator64Bytes));
    if (Take<uint32_t>(locator.data()) != kLocator64Magic) return directory;
    const auto end64_at = Take<uint64_t>(locator.data() + 8);
    if (bytes_ < kEnd64Bytes || end64_at > bytes_ - kEnd64Bytes) {
      return DataLoss("the ZIP64 end record lies outside of the archive");
    }
    ASSIGN_OR_RETURN(const auto end64, Fetch(end64_at, kEnd64Bytes));
    if (Take<uint32_t>(end64.data()) != kEnd64Magic) return DataLoss("no ZIP64 end record");
    directory.entries = Take<uint64_t>(end64.data() + 32);
    directory.bytes = Take<uint64_t>(end64.data() + 40);
    directory.at = Take<uint64_t>(end64.data() + 48);
    return directory;
  }

  // Takes the sizes that didn't fit in 32 bits from the extra field.
  static Status TakeWide(std::span<const std::byte> extra, uint64_t* bytes, uint64_t* stored,
                         uint64_t* header_at) {
    for (size_t at = 0; at + 4 <= extra.size();) {
      const auto kind = Take<uint16_t>(extra.data() + at);
      const auto length = Take<uint16_t>(extra.data() + at + 2);
      at += 4;
      if (length > extra.size() - at) return DataLoss("an extra field of a ZIP entry is cut");
      if (kind == kExtra64) {
        size_t from = at;
        for (uint64_t* value : {bytes, stored, header_at}) {
          // The field holds only the values that the header could not hold, in this order.
          if (*value != kNarrowMax) continue;
          if (from + 8 > at + length) return DataLoss("a ZIP64 size is cut");
          *value = Take<uint64_t>(extra.data() + from);
          from += 8;
        }
        return {};
      }
      at += length;
    }
    return {};
  }

  Result<ZipEntry> ReadEntry(std::span<const std::byte> directory, uint64_t& at,
                             uint64_t directory_at) {
    if (directory.size() - at < kEntryBytes ||
        Take<uint32_t>(directory.data() + at) != kEntryMagic) {
      return DataLoss("the ZIP directory is cut or damaged");
    }
    const std::byte* head = directory.data() + at;
    const uint64_t name_bytes = Take<uint16_t>(head + 28);
    const uint64_t extra_bytes = Take<uint16_t>(head + 30);
    const uint64_t comment_bytes = Take<uint16_t>(head + 32);
    at += kEntryBytes;
    if (directory.size() - at < name_bytes + extra_bytes + comment_bytes) {
      return DataLoss("the ZIP directory is cut");
    }
    ZipEntry entry;
    entry.name.assign(reinterpret_cast<const char*>(directory.data() + at), name_bytes);
    entry.crc = Take<uint32_t>(head + 16);
    const std::string what = "ZIP entry " + Printable(entry.name) + " ";
    if (Take<uint16_t>(head + 10) != 0) return DataLoss(what + "is compressed");
    if ((Take<uint16_t>(head + 8) & kEncryptedFlag) != 0) return DataLoss(what + "is encrypted");
    uint64_t stored = Take<uint32_t>(head + 20);
    entry.bytes = Take<uint32_t>(head + 24);
    uint64_t header_at = Take<uint32_t>(head + 42);
    RETURN_IF_ERROR(TakeWide(directory.subspan(at + name_bytes, extra_bytes), &entry.bytes, &stored,
                             &header_at));
    at += name_bytes + extra_bytes + comment_bytes;
    // Without compression both sizes are equal.
    if (stored != entry.bytes) return DataLoss(what + "has two sizes");
    // Its local header says where the data begins.
    if (header_at > directory_at || directory_at - header_at < kLocalBytes) {
      return DataLoss(what + "lies outside of the archive");
    }
    ASSIGN_OR_RETURN(const auto local, Fetch(header_at, kLocalBytes));
    if (Take<uint32_t>(local.data()) != kLocalMagic) return DataLoss(what + "has no header");
    const uint64_t data_at = header_at + kLocalBytes + Take<uint16_t>(local.data() + 26) +
                             Take<uint16_t>(local.data() + 28);
    if (data_at > directory_at || entry.bytes > directory_at - data_at) {
      return DataLoss(what + "lies outside of the archive");
    }
    entry.offset = begin_ + data_at;
    return entry;
  }

  const io::ReadableFile& file_;
  const uint64_t begin_;
  const uint64_t bytes_;
};

uint32_t Narrow(uint64_t value) {
  return value < kNarrowMax ? static_cast<uint32_t>(value) : kNarrowMax;
}

// Version, flags, method, time, date: what both headers of an entry begin with. 1980-01-01.
void PutStart(std::string& out) {
  Put<uint16_t>(out, 45);  // needs ZIP64
  Put<uint16_t>(out, kUtf8Flag);
  Put<uint16_t>(out, 0);  // stored
  Put<uint16_t>(out, 0);
  Put<uint16_t>(out, 0x21);
}

}  // namespace

uint32_t Crc32(std::span<const std::byte> bytes, uint32_t crc) {
  return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

Result<std::vector<ZipEntry>> ReadZip(const io::ReadableFile& file, uint64_t begin,
                                      uint64_t bytes) {
  if (begin > file.bytes() || bytes > file.bytes() - begin) {
    return DataLoss("the archive at byte " + std::to_string(begin) + " lies outside of the file");
  }
  return ZipReader(file, begin, bytes).Read();
}

// The data of each entry begins at a multiple of kAlignment, as PyTorch writes it, so that it can
// be mapped.
Status ZipWriter::Begin(const std::string& name, uint64_t bytes) {
  CHECK(name.size() <= 60'000);
  RETURN_IF_ERROR(EndEntry());
  Written entry;
  entry.name = name;
  entry.header_at = file_.bytes() - begin_;
  entry.bytes = bytes;
  std::string header;
  Put(header, kLocalMagic);
  PutStart(header);
  Put<uint32_t>(header, 0);  // the CRC comes when the data is there
  const bool wide = bytes >= kNarrowMax;
  Put(header, wide ? kNarrowMax : Narrow(bytes));
  Put(header, wide ? kNarrowMax : Narrow(bytes));
  Put(header, static_cast<uint16_t>(name.size()));
  std::string extra;
  if (wide) {
    Put(extra, kExtra64);
    Put<uint16_t>(extra, 16);
    Put(extra, bytes);
    Put(extra, bytes);
  }
  const uint64_t unpadded = entry.header_at + kLocalBytes + name.size() + extra.size() + 4;
  const auto padding = static_cast<uint16_t>((kAlignment - unpadded % kAlignment) % kAlignment);
  Put(extra, kExtraPad);
  Put(extra, padding);
  extra.append(padding, 'Z');
  Put(header, static_cast<uint16_t>(extra.size()));
  RETURN_IF_ERROR(file_.Append(BytesOf(header + name + extra)));
  entries_.push_back(std::move(entry));
  left_ = bytes;
  return {};
}

Status ZipWriter::Append(std::span<const std::byte> bytes) {
  CHECK(bytes.size() <= left_);
  left_ -= bytes.size();
  entries_.back().crc = Crc32(bytes, entries_.back().crc);
  return file_.Append(bytes);
}

Status ZipWriter::Add(const std::string& name, std::string_view content) {
  RETURN_IF_ERROR(Begin(name, content.size()));
  return Append(BytesOf(content));
}

// The CRC stands before the data and is known only after it, so it is stored at its place
// afterwards (offset 14 of the local header).
Status ZipWriter::EndEntry() {
  CHECK(left_ == 0);
  if (entries_.empty()) return {};
  std::string crc;
  Put(crc, entries_.back().crc);
  return file_.PatchAt(begin_ + entries_.back().header_at + 14, BytesOf(crc));
}

Status ZipWriter::Finish() {
  RETURN_IF_ERROR(EndEntry());
  const uint64_t directory_at = file_.bytes() - begin_;
  std::string out;
  for (const Written& entry : entries_) {
    const bool wide = entry.bytes >= kNarrowMax || entry.header_at >= kNarrowMax;
    std::string extra;
    if (wide) {
      Put(extra, kExtra64);
      Put<uint16_t>(extra, 24);
      Put(extra, entry.bytes);
      Put(extra, entry.bytes);
      Put(extra, entry.header_at);
    }
    Put(out, kEntryMagic);
    Put<uint16_t>(out, 45);
    PutStart(out);
    Put(out, entry.crc);
    Put(out, wide ? kNarrowMax : Narrow(entry.bytes));
    Put(out, wide ? kNarrowMax : Narrow(entry.bytes));
    Put(out, static_cast<uint16_t>(entry.name.size()));
    Put(out, static_cast<uint16_t>(extra.size()));
    out.append(10, '\0');  // no comment, first disk, no attributes
    Put(out, wide ? kNarrowMax : Narrow(entry.header_at));
    out += entry.name + extra;
  }
  const uint64_t directory_bytes = out.size();
  // The ZIP64 records are written in any case. A reader uses them where a field of the classic
  // record has its largest value.
  const uint64_t end64_at = directory_at + directory_bytes;
  Put(out, kEnd64Magic);
  Put<uint64_t>(out, kEnd64Bytes - 12);
  Put<uint16_t>(out, 45);
  Put<uint16_t>(out, 45);
  out.append(8, '\0');
  Put<uint64_t>(out, entries_.size());
  Put<uint64_t>(out, entries_.size());
  Put(out, directory_bytes);
  Put(out, directory_at);
  Put(out, kLocator64Magic);
  Put<uint32_t>(out, 0);
  Put(out, end64_at);
  Put<uint32_t>(out, 1);
  Put(out, kEndMagic);
  Put<uint32_t>(out, 0);
  const auto count = static_cast<uint16_t>(std::min<size_t>(entries_.size(), 0xFFFF));
  Put(out, count);
  Put(out, count);
  Put(out, Narrow(directory_bytes));
  Put(out, Narrow(directory_at));
  Put<uint16_t>(out, 0);
  return file_.Append(BytesOf(out));
}

}  // namespace longhaul::checkpoint
