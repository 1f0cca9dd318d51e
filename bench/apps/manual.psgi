# For bench/refork: a site that shows manuals and code of Mojolicious and Plack, as a Mojolicious application does it: pages and their
# parts are templates, which are compiled when they are first rendered; manuals are parsed at first sight and kept; what a
# page needs is loaded with it.
use Mojolicious::Lite -signatures;

use File::Find ();

app->log->level('fatal');
app->secrets(['of a benchmark']);

my (%file, $top);
$top = '/usr/share/perl5';
for my $dir (grep { -d } map { $top . "/$_" } qw(Mojo Mojolicious Plack)) {
    my $note = sub { $file{s{^$top/}{}r =~ s{\.(?:pm|pod)$}{}r =~ s{/}{::}gr} = $_ if /\.(?:pm|pod)$/ };
    File::Find::find({no_chdir => 1, wanted => $note}, $dir);
}
my @names = sort keys %file;

# The manual as HTML, with its headings.
my %manual;
helper manual => sub ($c, $name) {
    return $manual{$name} //= do {
        require Pod::Simple::XHTML;
        require Mojo::DOM;
        my $parser = Pod::Simple::XHTML->new;
        $parser->$_('') for qw(html_header html_footer);
        $parser->output_string(\my $html);
        $parser->parse_file($file{$name});
        my $dom = Mojo::DOM->new($html);
        {html => $html, headings => $dom->find('h1, h2')->map('text')->to_array};
    };
};
helper names => sub ($c) { \@names };

get '/'       => 'index';
get '/number' => sub ($c) { $c->render(text => scalar @names) };
get '/n/:at'  => [at => qr/\d+/] => sub ($c) {
    my $name = $names[$c->param('at') % @names];
    $c->stash(name => $name, manual => $c->manual($name));
    $c->render(template => 'manual', format => 'html');
};
get '/json/:at' => [at => qr/\d+/] => sub ($c) {
    my $name = $names[$c->param('at') % @names];
    $c->render(json => {name => $name, headings => $c->manual($name)->{headings}});
};

# The code of a module, its parts marked.
my %source;
helper source => sub ($c, $name) {
    return $source{$name} //= do {
        require PPI;
        my $document = PPI::Document->new($file{$name}, readonly => 1);
        my $html     = '';
        for my $token ($document ? $document->tokens : ()) {
            next if $token->isa('PPI::Token::Pod');
            my $class = lc((ref $token) =~ s/.*:://r);
            my $text  = Mojo::Util::xml_escape($token->content);
            $html .= $text =~ /\S/ ? qq{<b class="$class">$text</b>} : $text;
        }
        $html;
    };
};
get '/source/:at' => [at => qr/\d+/] => sub ($c) {
    my $name = $names[$c->param('at') % @names];
    $c->stash(name => $name, source => $c->source($name));
    $c->render(template => 'source', format => 'html');
};

app->start;

__DATA__

@@ index.html.ep
% layout 'site', title => 'Manuals';
<ul>
% for my $at (0 .. $#{names()}) {
  <li><a href="<%= url_for("/n/$at") %>"><%= names->[$at] %></a></li>
% }
</ul>

@@ manual.html.ep
% layout 'site', title => $name;
%= include 'headings', headings => $manual->{headings}
<article><%== $manual->{html} %></article>

@@ source.html.ep
% layout 'site', title => $name;
<pre><%== $source %></pre>

@@ headings.html.ep
<ol>
% for my $heading (@$headings) {
  <li><%= $heading %></li>
% }
</ol>

@@ layouts/site.html.ep
<!DOCTYPE html>
<html><head><title><%= title %></title></head>
<body><nav><%= link_to Manuals => '/' %></nav><%= content %></body></html>
