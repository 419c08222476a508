internal import CLibyaml

/// A YAML text as libyaml reads it: one event after another, each with its line.
///
/// Events and not a tree: what nobody asks for is never built, and an alias stays an alias, so that no text can grow into more
/// than it is or lead back into itself.
struct YAMLParser: ~Copyable {
    struct Event {
        let content: Content
        /// Where it begins, counted from 1.
        let line: Int
    }

    enum Content {
        case documentStart
        case mappingStart
        case mappingEnd
        case sequenceStart
        case sequenceEnd
        /// Its text, however it was quoted. Its tag and its anchor are not looked at.
        case scalar(String)
        case alias
        /// The end of the last document: of the text.
        case end
    }

    /// Why a text is not YAML.
    struct Failure: Error {
        /// libyaml's own words, which never quote the text.
        let problem: String
        /// Counted from 1.
        let line: Int
    }

    /// Not a stored `yaml_parser_t`: the parser keeps a pointer to itself.
    private let parser: UnsafeMutablePointer<yaml_parser_t>
    /// The text, which the parser reads as it goes.
    private let text: UnsafeMutableBufferPointer<UInt8>

    /// - Throws: ``Failure`` where there is no memory for a parser.
    init(_ string: String) throws(Failure) {
        let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
        guard yaml_parser_initialize(parser) == 1 else {
            parser.deallocate()
            throw Failure(problem: "there is no memory to read it", line: 1)
        }
        self.parser = parser
        text = .allocate(capacity: string.utf8.count)
        _ = text.initialize(from: string.utf8)
        // Said, since libyaml would otherwise guess at UTF-16.
        yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
        yaml_parser_set_input_string(parser, text.baseAddress, text.count)
    }

    deinit {
        yaml_parser_delete(parser)
        parser.deallocate()
        text.deallocate()
    }

    /// The next event; ``Content/end`` again and again behind the last one.
    ///
    /// - Throws: ``Failure`` where the text is no YAML. The parser is at its end then.
    mutating func next() throws(Failure) -> Event {
        while true {
            var event = yaml_event_t()
            guard yaml_parser_parse(parser, &event) == 1 else { throw failure }
            defer { yaml_event_delete(&event) }
            guard let content = Self.content(of: event) else { continue }
            return Event(content: content, line: Int(event.start_mark.line) + 1)
        }
    }

    /// What an event says, or `nil` where the one before it or behind it says the same.
    private static func content(of event: yaml_event_t) -> Content? {
        switch event.type {
        case YAML_STREAM_START_EVENT, YAML_DOCUMENT_END_EVENT: nil
        case YAML_DOCUMENT_START_EVENT: .documentStart
        case YAML_MAPPING_START_EVENT: .mappingStart
        case YAML_MAPPING_END_EVENT: .mappingEnd
        case YAML_SEQUENCE_START_EVENT: .sequenceStart
        case YAML_SEQUENCE_END_EVENT: .sequenceEnd
        case YAML_ALIAS_EVENT: .alias
        case YAML_SCALAR_EVENT:
            .scalar(
                String(
                    decoding: UnsafeBufferPointer(start: event.data.scalar.value, count: event.data.scalar.length),
                    as: UTF8.self
                )
            )
        // The stream's end, and no event at all once it has been passed.
        default: .end
        }
    }

    /// What the parser stopped at. Its reader, which alone refuses octets, knows an offset and not a line.
    private var failure: Failure {
        let problem = parser.pointee.problem.map { String(cString: $0) } ?? "there is no memory to read it"
        let line =
            if parser.pointee.error == YAML_READER_ERROR {
                text.prefix(parser.pointee.problem_offset).count { $0 == UInt8(ascii: "\n") }
            } else {
                Int(parser.pointee.problem_mark.line)
            }
        return Failure(problem: problem, line: line + 1)
    }
}
