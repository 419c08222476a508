import Testing

@testable import Postgres

@Suite struct SQLScriptTests {
    private func texts(_ script: String) -> [String] { SQLScript(script).statements.map(\.text) }

    @Test("Statements end at semicolons outside of quotes, comments and parentheses")
    func statements() {
        #expect(texts("SELECT 1; SELECT 2") == ["SELECT 1", "SELECT 2"])
        #expect(texts(";;  -- nothing; at all\n/* nor; /* here; */ ; */") == [])
        #expect(texts("SELECT ';', 'it''s;', \";\"\"\";SELECT 2;") == ["SELECT ';', 'it''s;', \";\"\"\"", "SELECT 2"])
        #expect(
            texts(#"SELECT E'\';', e'\\'; SELECT name'a\'; SELECT 3"#) == [
                #"SELECT E'\';', e'\\'"#, #"SELECT name'a\'"#, "SELECT 3",
            ]
        )
        #expect(texts("DO $$ BEGIN; END $$; DO $a$ $$;$b$; $a$;") == ["DO $$ BEGIN; END $$", "DO $a$ $$;$b$; $a$"])
        #expect(texts("SELECT $1; SELECT a$b$c; SELECT 2") == ["SELECT $1", "SELECT a$b$c", "SELECT 2"])
        #expect(texts("CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2); SELECT 3").count == 2)
        #expect(texts("SELECT 1 -- one;\n, 2; -- end") == ["SELECT 1 -- one;\n, 2"])
        #expect(texts("SELECT 'unfinished; SELECT 2") == ["SELECT 'unfinished; SELECT 2"])
        #expect(texts("SELECT '카;카오'; SELECT 2") == ["SELECT '카;카오'", "SELECT 2"])
    }

    @Test("The checksum is that of the whole text, with its comments")
    func checksum() {
        #expect(SQLScript("SELECT 1").checksum != SQLScript("SELECT 1 -- one").checksum)
        #expect(SQLScript("SELECT 1").checksum.count == 32)
    }

    @Test("A script that is cut off anywhere is read to its end")
    func truncated() {
        let script = Array(#"SELECT E'a\';' /* b */ -- c"#.utf8) + Array("\n, \"d\", $e$ f $e$, $1 (;);".utf8)
        for count in 0...script.count { _ = SQLScript(String(decoding: script[..<count], as: UTF8.self)).statements }
    }

    @Test("The line of a position counts from the start of the script")
    func lines() throws {
        let statement = try #require(SQLScript("-- 카카오\nSELECT 1;\n\n-- next\nSELECT '카',\n  x").statements.last)
        #expect(statement.line == 5)
        #expect(statement.line(ofPosition: nil) == 5)
        #expect(statement.line(ofPosition: 8) == 5)
        #expect(statement.line(ofPosition: 15) == 6)
        #expect(statement.line(ofPosition: 1000) == 6)
    }

    @Test("Statements that create triggers and views are told from those that create functions")
    func kinds() {
        let statements = SQLScript(
            """
            CREATE OR REPLACE FUNCTION f() RETURNS trigger AS $$ $$; create or replace\ntrigger t; CREATE TRIGGER t;
            CREATE OR REPLACE VIEW v AS SELECT 1; create\nview v; CREATE TABLE view (); SELECT 1 AS view
            """
        ).statements
        #expect(statements.map(\.kind) == [.other, .trigger, .trigger, .view, .view, .other, .other])
    }
}
