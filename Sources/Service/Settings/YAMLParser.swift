import CLibyaml

/// A pull parser of YAML events over libyaml. Each event has its line.
///
/// It returns events rather than a tree, so it builds nothing that the caller does not request. An alias remains an
/// alias, so a text can neither expand into a larger one nor contain itself.
struct YAMLParser: ~Copyable {
    struct Event {
        let content: Content
        /// The line of the event's start, counted from 1.
        let line: Int
    }

    enum Content {
        case documentStart
        case mappingStart
        case mappingEnd
        case sequenceStart
        case sequenceEnd
        /// A scalar's text, unquoted. Its tag and anchor are ignored.
        case scalar(String)
        case alias
        /// The end of the text, after the last document.
        case end
    }

    /// The reason why a text is not valid YAML.
    struct Failure: Error {
        /// libyaml's message, which never quotes the text.
        let problem: String
        /// The line of the problem, counted from 1.
        let line: Int
    }

    /// The parser, which is allocated rather than stored inline because it has a pointer to itself.
    private let parser: UnsafeMutablePointer<yaml_parser_t>
    /// The text, which the parser reads incrementally.
    private let text: UnsafeMutableBufferPointer<UInt8>

    /// - Throws: ``Failure`` if there is no memory for a parser.
    init(_ string: String) throws(Failure) {
        let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
        guard yaml_parser_initialize(parser) == 1 else {
            parser.deallocate()
            throw Failure(problem: "not enough memory to read it", line: 1)
        }
        self.parser = parser
        text = .allocate(capacity: string.utf8.count)
        _ = text.initialize(from: string.utf8)
        // Without this, libyaml might detect UTF-16.
        yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
        yaml_parser_set_input_string(parser, text.baseAddress, text.count)
    }

    deinit {
        yaml_parser_delete(parser)
        parser.deallocate()
        text.deallocate()
    }

    /// Returns the next event, and ``Content/end`` repeatedly after the last one.
    ///
    /// - Throws: ``Failure`` if the text is not valid YAML. The parser cannot continue after that.
    mutating func next() throws(Failure) -> Event {
        while true {
            var event = yaml_event_t()
            guard yaml_parser_parse(parser, &event) == 1 else { throw failure }
            defer { yaml_event_delete(&event) }
            guard let content = Self.content(of: event) else { continue }
            return Event(content: content, line: Int(event.start_mark.line) + 1)
        }
    }

    /// Returns the content of an event, or `nil` for an event that the previous or next one implies.
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
        // The end of the stream. After it, the parser returns no event.
        default: .end
        }
    }

    /// The problem at which the parser stopped.
    ///
    /// The part of libyaml that reads octets gives an offset instead of a line.
    private var failure: Failure {
        let problem = parser.pointee.problem.map { String(cString: $0) } ?? "not enough memory to read it"
        let line =
            if parser.pointee.error == YAML_READER_ERROR {
                text.prefix(parser.pointee.problem_offset).count { $0 == UInt8(ascii: "\n") }
            } else {
                Int(parser.pointee.problem_mark.line)
            }
        return Failure(problem: problem, line: line + 1)
    }
}
